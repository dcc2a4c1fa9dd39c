// Several ranks' writers in one process, each with its thread, into one folder.
#include "engine/portable/writer.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/portable/verify.h"
#include "tests/engine/portable/portable_machine.h"
#include "tests/io/loop_mount.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

namespace fs = std::filesystem;
using test::error_text;
using test::mentions;

constexpr int kRanks = 3;

class Writers {
 public:
  Writers(const StoredModel& model, const std::string& directory, std::int64_t keep)
      : model_(model) {
    const std::int64_t bytes = portable_copy_bytes(model.manifest);
    for (int rank = 0; rank < kRanks; ++rank) {
      const AlignedBuffer& memory = memory_.emplace_back(budget_, "copy", bytes);
      writers_.push_back(std::make_unique<PortableWriter>(
          PortableLayout(model.manifest, {}),
          PortableWriterOptions{rank, kRanks, {{"config.json", "{}\n"}}, {directory}, keep},
          memory.span()));
    }
  }

  // As a run does it: the writers go on together, when none is busy. Rank 0's report.
  PortableReport write(std::int64_t step) {
    const std::uint64_t folder = writer(0).make_folder(step_folder_name(step));
    for (int rank = 0; rank < kRanks; ++rank) begin(rank, step, folder);
    return end();
  }

  void begin(int rank, std::int64_t step, std::uint64_t folder) {
    PortableOrigin origin = model_.origin;
    origin.step = step;
    StoredRank& source = *model_.ranks[static_cast<std::size_t>(rank)];
    writer(rank).begin(step_folder_name(step), folder, origin, source.blocks(), source.table());
  }

  PortableReport end() {
    PortableReport report;
    while (!writer(0).idle()) {
      if (std::ranges::any_of(writers_, [](const auto& writer) { return writer->busy(); })) {
        std::this_thread::yield();
        continue;
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto of_rank = writer(rank).advance();
        if (rank == 0 && of_rank) report = *of_rank;
      }
    }
    for (const auto& writer : writers_) EXPECT_TRUE(writer->idle());
    return report;
  }

  PortableWriter& writer(int rank) { return *writers_[static_cast<std::size_t>(rank)]; }

 private:
  const StoredModel& model_;
  Budget budget_{"host memory", 1 << 20};
  std::vector<AlignedBuffer> memory_;
  std::vector<std::unique_ptr<PortableWriter>> writers_;
};

class PortableWriterTest : public ::testing::Test {
 protected:
  const StoredModel model_{{Dtype::bf16, Dtype::f32, MomentFormat::int8, 2}, kRanks};
  const test::TemporaryFolder folder_;
  const std::string directory_ = folder_.path("checkpoints");
};

TEST_F(PortableWriterTest, RanksTogetherWriteWhatOneProcessExports) {
  Writers writers(model_, directory_, 2);
  const PortableReport report = writers.write(7);
  EXPECT_EQ(report.result, PortableReport::Result::written);
  EXPECT_TRUE(mentions(report.text, "wrote " + directory_ + "/step-00000007")) << report.text;
  const std::string path = directory_ + "/step-00000007";
  EXPECT_TRUE(verify_portable(path).damage.empty());
  model_.export_to(folder_.path("exported"), {});
  EXPECT_EQ(names_in(path), names_in(folder_.path("exported")));
  for (const std::string& name : names_in(path)) {
    EXPECT_EQ(test::contents_of(path + "/" + name),
              test::contents_of(folder_.path("exported/" + name)))
        << name;
  }
}

TEST_F(PortableWriterTest, TheNewestAreKept) {
  Writers writers(model_, directory_, 2);
  for (const std::int64_t step : {10, 20, 30}) writers.write(step);
  EXPECT_EQ(names_in(directory_), (std::vector<std::string>{"step-00000020", "step-00000030"}));
  // After a resume from an older step: what was just written is the newest, whatever its number.
  writers.write(15);
  EXPECT_EQ(names_in(directory_), (std::vector<std::string>{"step-00000015", "step-00000030"}));
  // The same step again, replaced.
  EXPECT_EQ(writers.write(15).result, PortableReport::Result::written);
  EXPECT_EQ(names_in(directory_), (std::vector<std::string>{"step-00000015", "step-00000030"}));
}

TEST_F(PortableWriterTest, AFailureOfAnyRankLeavesNothingAndTheNextCopySucceeds) {
  Writers writers(model_, directory_, 2);
  writers.write(10);
  for (const std::size_t broken : {0u, 1u}) {
    const auto change_checksums = [&] {
      for (std::uint64_t& checksum : model_.ranks[broken]->table().checksums) checksum ^= 1;
    };
    change_checksums();
    const PortableReport report = writers.write(20);
    EXPECT_EQ(report.result, PortableReport::Result::failed);
    EXPECT_TRUE(mentions(report.text, "step-00000020 was not written")) << report.text;
    EXPECT_TRUE(mentions(report.text, broken == 0 ? "not those that were written there"
                                                  : "rank 1 did not copy its part"))
        << report.text;
    EXPECT_EQ(names_in(directory_), std::vector<std::string>{"step-00000010"});
    change_checksums();
  }
  EXPECT_EQ(writers.write(20).result, PortableReport::Result::written);
}

// A rank whose folder is not the one that rank 0 made writes nothing that rank 0 takes.
TEST_F(PortableWriterTest, ARankThatWroteToAnotherFolderIsNotTakenForOneOfThisCopy) {
  Writers writers(model_, directory_, 2);
  const std::uint64_t folder = writers.writer(0).make_folder(step_folder_name(10));
  for (int rank = 0; rank < kRanks; ++rank)
    writers.begin(rank, 10, rank == 1 ? folder ^ 2 : folder);
  const PortableReport report = writers.end();
  EXPECT_EQ(report.result, PortableReport::Result::failed);
  EXPECT_TRUE(mentions(report.text, "rank 1 did not copy its part")) << report.text;
  EXPECT_TRUE(names_in(directory_).empty());
}

// As on a drive that only rank 0 has.
TEST_F(PortableWriterTest, OnlyRank0MakesTheFolder) {
  Writers writers(model_, directory_, 2);
  fs::create_directory(directory_);
  for (int rank = 1; rank < kRanks; ++rank) writers.begin(rank, 10, 1);
  while (writers.writer(1).busy() || writers.writer(2).busy()) std::this_thread::yield();
  EXPECT_TRUE(names_in(directory_).empty());
  writers.writer(1).advance();
  const auto report = writers.writer(1).advance();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->result, PortableReport::Result::failed);
}

TEST_F(PortableWriterTest, WhereNoFolderCanBeMadeEveryRankIsIdleAgain) {
  std::ofstream{directory_} << "a file";
  Writers writers(model_, directory_, 2);
  const PortableReport report = writers.write(10);
  EXPECT_EQ(report.result, PortableReport::Result::failed);
  EXPECT_TRUE(mentions(report.text, directory_)) << report.text;
}

// The copy of a run that ends early stops at the next block.
TEST_F(PortableWriterTest, ACopyThatIsToStopCopiesNoFurtherBlock) {
  const PortableLayout layout(model_.manifest, {});
  const std::string path = folder_.make_folder("stopped");
  PortableFiles files(path, file_names(layout), PortableFiles::Access::write);
  Budget budget("host memory", portable_copy_bytes(model_.manifest));
  const AlignedBuffer memory(budget, "copy", portable_copy_bytes(model_.manifest));
  const std::atomic<bool> stop{true};
  std::vector<std::uint64_t> checksums;
  copy_shard(layout, model_.ranks[0]->source(), files, memory.span(), stop, checksums);
  EXPECT_TRUE(checksums.empty());
  EXPECT_EQ(files.bytes(0), 0);
}

TEST_F(PortableWriterTest, WhatIsAnotherRunsIsNeitherReplacedNorRemoved) {
  StoredModel other{{Dtype::bf16, Dtype::f32, MomentFormat::int8, 2}, kRanks};
  other.origin.run = "/runs/other";
  Writers(other, directory_, 2).write(10);
  Writers writers(model_, directory_, 1);
  const PortableReport report = writers.write(10);
  EXPECT_EQ(report.result, PortableReport::Result::failed);
  EXPECT_TRUE(mentions(report.text, "exists already")) << report.text;
  writers.write(20);
  writers.write(30);
  EXPECT_EQ(names_in(directory_), (std::vector<std::string>{"step-00000010", "step-00000030"}));
  const std::string text =
      error_text<ConfigError>([&] { check_checkpoint_directory(directory_, "/runs/mine"); });
  EXPECT_TRUE(mentions(text, "step-00000010 is of another run, /runs/other")) << text;
}

// Two ranks, of which the other one is busy for some time; a wait without end is a barrier's.
class SlowRank final : public comm::Communicator {
 public:
  explicit SlowRank(int busy_answers) : busy_answers_(busy_answers) {}
  const comm::Topology& topology() const override { return topology_; }
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
    all[0] = mine[0];
    all[1] = static_cast<std::byte>(busy_answers_-- > 0);
  }
  void barrier() override { throw CommError("the other rank does not come"); }
  bool is_busy() const { return busy_answers_ > 0; }

  StagingBytes staging_bytes() const override { return {}; }
  DeviceBuffer attach(Device& /*device*/) override { return {}; }
  void all_gather(Stream& /*stream*/, void* /*full*/, std::int64_t /*bytes*/) override {}
  void reduce_scatter(Stream& /*stream*/, float* /*full*/, std::int64_t /*elements*/) override {}
  void broadcast(std::span<std::byte> /*data*/, int /*root*/) override {}
  void abort(int /*exit_code*/) noexcept override {}

 private:
  comm::Topology topology_{0, 2, 0, 2, 1};
  int busy_answers_;
};

TEST_F(PortableWriterTest, FinishWaitsForARankThatCopiesForLongWithoutABarrier) {
  const StoredModel model{{Dtype::bf16, Dtype::f32, MomentFormat::int8, 2}, 1};
  Budget budget("host memory", portable_copy_bytes(model.manifest));
  const AlignedBuffer memory(budget, "copy", portable_copy_bytes(model.manifest));
  PortableWriter writer(PortableLayout(model.manifest, {}),
                        {0, 1, {{"config.json", "{}\n"}}, {directory_}, 1}, memory.span());
  StoredRank& source = *model.ranks[0];
  writer.begin("model", writer.make_folder("model"), model.origin, source.blocks(), source.table());
  SlowRank comm(5);
  const auto report = writer.finish(comm);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->result, PortableReport::Result::written) << report->text;
  EXPECT_FALSE(comm.is_busy());
}

TEST_F(PortableWriterTest, AnExportReplacesNothing) {
  fs::create_directories(directory_ + "/step-00000010");
  Writers writers(model_, directory_, 0);
  const PortableReport report = writers.write(10);
  EXPECT_EQ(report.result, PortableReport::Result::failed);
  EXPECT_TRUE(mentions(report.text, "exists already")) << report.text;
  EXPECT_EQ(names_in(directory_), std::vector<std::string>{"step-00000010"});
}

TEST_F(PortableWriterTest, AFullDiskIsReportedAndLeavesNothing) {
  const io::LoopMount mount(1 << 20);
  if (!mount.mounted()) GTEST_SKIP() << "loop devices are not permitted here";
  Writers writers(model_, mount.directory(), 2);
  // A checkpoint has some 200 KB, and as much comes beside each.
  PortableReport report;
  std::int64_t step = 0;
  while (report.result == PortableReport::Result::written && step < 20) {
    std::ofstream(mount.directory() + "/" + std::to_string(step)) << std::string(200'000, 'x');
    report = writers.write(++step);
  }
  EXPECT_TRUE(mentions(report.text, "No space left on device")) << report.text;
  EXPECT_FALSE(fs::exists(mount.directory() + "/" + step_folder_name(step)));
  for (const std::string& name : names_in(mount.directory())) EXPECT_FALSE(name.starts_with('.'));
}

}  // namespace
}  // namespace strata::engine::testing
