// Runs that something happened to: what is refused is said in one line and changes nothing, and
// what can be gone on from is.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "offload/store/checksum.h"
#include "offload/store/file_header.h"
#include "offload/store/stored_shard.h"
#include "tests/engine/run/durable_runs.h"
#include "tests/io/loop_mount.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using offload::StateKind;
using test::contents_of;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 30;

class ResumeFault : public DurableRuns {
 protected:
  ResumeFault() : DurableRuns(kSteps) {
    for (const char* drive : {"a", "b"}) folder_.make_folder(drive);
  }

  // Changes a byte of a state of the newest commit (0) or the one before (1).
  void damage(const std::string& file, std::size_t commit, int unit, StateKind kind) const {
    std::string place;
    {
      const store::StoredShard shard({file}, io::VolumeAccess::shared, {}, nullptr);
      place = shard.blocks().locate(shard.commits().valid.at(commit).table, unit, kind, 0);
    }
    ASSERT_TRUE(place.starts_with(file + " at offset ")) << place;
    change_byte(file, std::stoll(place.substr(place.rfind(' '))) + 5);
  }
  static void change_byte(const std::string& file, std::int64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(offset);
    const char byte = static_cast<char>(stream.get());
    stream.seekp(offset).put(static_cast<char>(byte ^ 1));
  }
};

TEST_F(ResumeFault, ADamagedNewestCommitIsNamedAndTheOneBeforeOffered) {
  const Words every_step = {"--checkpoint-every", "1"};
  complete("whole", every_step);
  complete("run", every_step);
  damage(store_file("run", "run"), 0, 2, StateKind::moment1);
  const Words resume = every_step + Words{"--resume"};
  expect_refused("run", resume, 1,
                 {"the checkpoint of step 30 is damaged: moment1 of h.", path("run"), " at offset ",
                  "the checkpoint of step 29 is intact: resume with --resume-step 29"});
  const ProcessResult verified = strata({"verify", "run"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_PRED2(mentions, verified.out + verified.err, "moment1 of h.");
  expect_refused("run", resume + Words{"--nvme", "a"}, 1, {"--resume-step 29"});
  expect_refused("run", resume + Words{"--resume-step", "12"}, 2, {"those of 30 and 29"});

  complete("run", resume + Words{"--resume-step", "29"});
  EXPECT_EQ(results_of("run"), results_of("whole"));
  EXPECT_TRUE(weights_of("run") == weights_of("whole"));
}

// Nothing of what was asked for is kept, and nothing is lost of the log.
TEST_F(ResumeFault, ARefusalLeavesTheRunAsItIs) {
  complete("run", {"--checkpoint-every", "1"});
  damage(store_file("run", "run"), 1, 1, StateKind::moment1);
  const Words changed = {
      "--checkpoint-every", "1", "--resume", "--resume-step", "29", "--lr", "1e-5",
      "--allow-change",     "lr"};
  for (const Words& place : {Words{}, Words{"--nvme", "a"}}) {
    expect_refused("run", changed + place, 1,
                   {"the checkpoint of step 29 is damaged", "step 30 is intact"});
  }
  expect_intact("run");
}

// Free for what a run goes on with: all but so much is taken while this lives.
class Ballast {
 public:
  Ballast(const std::string& directory, std::int64_t free_bytes) : file_(directory + "/ballast") {
    std::ofstream stream(file_);
    const auto left = [&] { return static_cast<std::int64_t>(fs::space(directory).available); };
    while (left() > free_bytes && stream << std::string(4096, '-') << std::flush) {
    }
  }
  ~Ballast() { fs::remove(file_); }

 private:
  std::string file_;
};

TEST_F(ResumeFault, AMoveThatFindsNoRoomTouchesNothing) {
  io::LoopMount small(32 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const std::string drive = fs::path(small.directory()).lexically_normal();
  fs::create_directory(drive + "/new");
  fs::create_directory(drive + "/old");
  complete("run", {"--checkpoint-every", "1", "--nvme", drive + "/old"});
  const std::string id = read_store_pointer(path("run")).value().run_id;
  const std::string file = drive + "/old/" + store::store_file_name({id, 0, 1, ""});
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  const std::string store = contents_of(file);
  const Words move = {"--checkpoint-every", "1", "--resume", "--nvme", drive + "/new"};
  {
    const Ballast ballast(drive, bytes / 4);  // and half of the old store is dead
    expect_refused("run", move, 2, {"--nvme", " are needed and ", " are free"});
    EXPECT_TRUE(contents_of(file) == store);
  }
  const Ballast ballast(drive, bytes * 3 / 4);
  complete("run", move);
  EXPECT_FALSE(fs::exists(file));
  expect_intact("run");
}

// As after a move that was killed.
TEST_F(ResumeFault, SpaceThatWasGivenBackIsReservedAgain) {
  io::LoopMount small(32 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const std::string drive = fs::path(small.directory()).lexically_normal();
  complete("run", {"--checkpoint-every", "1", "--nvme", drive});
  const std::string id = read_store_pointer(path("run")).value().run_id;
  const std::string file = drive + "/" + store::store_file_name({id, 0, 1, ""});
  {
    store::StoredShard shard({file}, io::VolumeAccess::exclusive, {}, nullptr);
    shard.punch_dead_slots(shard.commits().valid.at(0).table);
  }
  const Words more = {"--checkpoint-every", "1", "--resume", "--nvme", drive};
  {
    const Ballast ballast(drive, 256 << 10);
    expect_refused("run", more, 2, {"--nvme", " are needed and ", " are free"});
  }
  complete("run", more);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, status.st_size);
}

TEST_F(ResumeFault, NoDamagedCommitIsOffered) {
  complete("run", {"--checkpoint-every", "1"});
  damage(store_file("run", "run"), 0, 0, StateKind::weights);
  damage(store_file("run", "run"), 1, 1, StateKind::moment2);
  expect_refused("run", {"--resume"}, 1,
                 {"the checkpoint of step 30 is damaged",
                  "the checkpoint of step 29 is damaged too", "--resume-from"});
}

TEST_F(ResumeFault, AMissingDirectoryIsNamed) {
  const Words drives = {"--nvme", "a=1GB/s,b=1GB/s"};
  complete("whole", {});
  complete("run", drives + Words{"--checkpoint-every", "2"});
  fs::rename(path("b"), path("c"));
  expect_refused("run", {"--nvme", "", "--resume"}, 2,
                 {"no rank reaches all files of rank 0", path("b"), "--nvme", "--resume-from"});
  complete("run", {"--nvme", "a=1GB/s,c=1GB/s", "--resume"});
  EXPECT_EQ(results_of("run"), results_of("whole"));
  expect_intact("run");  // which finds it where it is now
}

TEST_F(ResumeFault, AStoreOfAnotherRunIsRefused) {
  complete("run", {"--nvme", "a"});
  complete("other", {"--nvme", "b", "--seed", "2"});
  const std::string own = store_file("run", "a");
  fs::rename(own, path("own"));
  fs::copy_file(store_file("other", "b"), own);
  expect_refused(
      "run", {"--nvme", "a", "--resume"}, 2,
      {"store file " + own, read_store_pointer(path("other")).value().run_id, "store.json"});
  fs::remove(own);
  fs::rename(path("own"), own);
  complete("run", {"--nvme", "a", "--resume"});
  expect_intact("run");
}

TEST_F(ResumeFault, ANewerVersionOfTheFormatIsRefused) {
  complete("run", {});
  const std::string file = store_file("run", "run");
  // docs/store-format.md: the version at offset 8, the checksum of the header at 8,184.
  std::vector<char> header(store::kHeaderBytes);
  std::ifstream(file, std::ios::binary).read(header.data(), std::ssize(header));
  const std::vector<char> before = header;
  header[8] = 2;
  const std::uint64_t checksum =
      store::checksum(reinterpret_cast<const std::byte*>(header.data()), 8184, 0x68656164);
  std::memcpy(header.data() + 8184, &checksum, sizeof checksum);
  const auto write = [&](const std::vector<char>& bytes) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
        .write(bytes.data(), std::ssize(bytes));
  };
  write(header);
  expect_refused("run", {"--resume"}, 1, {file, "a store of format version 2", "reads 1"});
  write(before);
  complete("run", {"--resume"});
  expect_intact("run");
}

// One rank has committed what the other has not.
TEST_F(ResumeFault, ARankThatDiesInACommit) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  const Words options = {"--checkpoint-every", "1", "--place", "all=nvme"};
  complete("whole", options, 2);
  const auto process = started(command("run", options, 2), "run");
  const std::vector<pid_t> ranks = children_of(*process);
  ASSERT_EQ(ranks.size(), 2);
  ::kill(ranks[1], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other one waits for it
  ::kill(ranks[1], SIGKILL);
  EXPECT_NE(process->wait().exit_code, 0);
  complete("run", options + Words{"--resume"}, 2);
  EXPECT_EQ(results_of("run"), results_of("whole"));
}

TEST_F(ResumeFault, DamageOfOneRankIsSaidOnce) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  const Words options = {"--checkpoint-every", "1"};
  complete("run", options, 2);
  damage(store_file("run", "run", 1), 0, 1, StateKind::remainder);
  const ProcessResult refused = train("run", options + Words{"--resume"}, 2);
  EXPECT_EQ(refused.exit_code, 1);
  const std::string message = "strata: error: the checkpoint of step 30 is damaged: remainder of ";
  EXPECT_PRED2(mentions, refused.err, message);
  EXPECT_EQ(refused.err.find("strata: error: "), refused.err.rfind("strata: error: "))
      << refused.err;
  complete("run", options + Words{"--resume", "--resume-step", "29"}, 2);
}

TEST_F(ResumeFault, ADiskThatIsFullWhenTheRunIsExported) {
  io::LoopMount small(1 << 20);  // a model of 240 KiB, or 1.4 MiB with its moments, fits or not
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const std::string target = fs::path(small.directory() + "/exported").lexically_normal();
  complete("run", {});
  const ProcessResult full = strata({"export", "run", target, "--with-optimizer"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_PRED2(mentions, full.err, fs::path(target).parent_path());
  EXPECT_PRED2(mentions, full.err, "No space left on device");
  expect_intact("run");
  const ProcessResult model = strata({"export", "run", target});  // nothing is in its way
  EXPECT_EQ(model.exit_code, 0) << model.err;
  const ProcessResult verified = strata({"verify", target});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
}

// Training goes on, and is complete: but who wanted its model has none.
TEST_F(ResumeFault, ADiskThatIsFullDuringTraining) {
  io::LoopMount small(1 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const Words every_step = {"--checkpoint-every", "1"};
  complete("whole", every_step);
  const ProcessResult copied =
      train("copied", every_step + Words{"--checkpoint-to", small.directory() + "/copies"});
  EXPECT_EQ(copied.exit_code, 0) << copied.err;
  EXPECT_PRED2(mentions, copied.out, "was not written: ");
  EXPECT_EQ(results_of("copied"), results_of("whole"));
  expect_intact("copied");

  std::ofstream ballast(small.directory() + "/ballast");
  while (ballast << std::string(4096, '-') << std::flush) {
  }
  const std::string target = fs::path(small.directory() + "/exported").lexically_normal();
  const ProcessResult trained = train("run", every_step + Words{"--export", target});
  EXPECT_EQ(trained.exit_code, 1);
  EXPECT_PRED2(mentions, trained.err, "--export: " + target + " was not written: ");
  EXPECT_PRED2(mentions, trained.err, "strata export run DIR");
  EXPECT_EQ(results_of("run"), results_of("whole"));
  complete("run", {"--resume", "--export", "exported"});
  EXPECT_TRUE(fs::exists(path("exported/model.safetensors")));
}

}  // namespace
}  // namespace strata::engine
