// Runs that something happened to: what is refused is said in one line and changes nothing, and
// what can be gone on from is.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
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
#include "offload/store/store_files.h"
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

  void complete(const std::string& run, const Words& more) const {
    const ProcessResult result = train(run, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  // In one line, with these parts, at once, and leaving the run as it is.
  void expect_refused(const std::string& run, const Words& more, int exit_code,
                      const Words& parts) const {
    const std::string log = contents_of(path(run + "/log.jsonl"));
    const std::string options = contents_of(path(run + "/options.json"));
    const ProcessResult result = train(run, more);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_PRED2(mentions, result.err, part);
    EXPECT_EQ(contents_of(path(run + "/log.jsonl")), log);
    EXPECT_EQ(contents_of(path(run + "/options.json")), options);
  }
  void expect_intact(const std::string& run) const {
    const ProcessResult verified = strata({"verify", run});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }

  // The file of the first directory, which is in `folder`.
  std::string store_file(const std::string& run, const std::string& folder) const {
    const std::string id = read_store_pointer(path(run)).value().run_id;
    return path(folder + "/" + store::store_file_name({id, 0, 1, ""}));
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
                 {"the commit of step 30 is damaged: moment1 of h.", path("run"), " at offset ",
                  "the commit of step 29 is intact: resume with --resume-step 29"});
  const ProcessResult verified = strata({"verify", "run"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_PRED2(mentions, verified.out + verified.err, "moment1 of h.");
  expect_refused("run", resume + Words{"--nvme", "a"}, 1, {"--resume-step 29"});
  expect_refused("run", resume + Words{"--resume-step", "12"}, 2, {"those of 30 and 29"});

  complete("run", resume + Words{"--resume-step", "29"});
  EXPECT_EQ(results_of("run"), results_of("whole"));
  EXPECT_TRUE(weights_of("run") == weights_of("whole"));
}

TEST_F(ResumeFault, NoDamagedCommitIsOffered) {
  complete("run", {"--checkpoint-every", "1"});
  damage(store_file("run", "run"), 0, 0, StateKind::weights);
  damage(store_file("run", "run"), 1, 1, StateKind::moment2);
  expect_refused("run", {"--resume"}, 1,
                 {"the commit of step 30 is damaged", "the commit of step 29 is damaged too",
                  "--resume-from"});
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

TEST_F(ResumeFault, ARunThatIsAliveIsLeftAlone) {
  complete("whole", {"--checkpoint-every", "1"});
  const Words endless = {"--steps", "100000",        "--checkpoint-every",
                         "1",       "--lr-schedule", "constant"};
  const auto alive = started(command("run", endless), "run");
  const ProcessResult refused = train("run", endless + Words{"--resume"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(mentions, refused.err,
               fmt::format("--run run: in use by process {} on ", alive->pid()));
  EXPECT_EQ(end_of(*alive, SIGUSR1).exit_code, 75);
  expect_intact("run");
}

// Never restarted in silence.
TEST_F(ResumeFault, ARunWithoutCheckpointsThatWasKilledInMidStepIsRefused) {
  const Words endless = {"--steps", "100000", "--checkpoint-every", "0"};
  const auto alive = started(command("run", endless), "run");
  EXPECT_EQ(end_of(*alive, SIGKILL).exit_code, -1);
  const std::string store = contents_of(store_file("run", "run"));
  for (int again = 0; again < 2; ++again) {
    expect_refused("run", endless + Words{"--resume"}, 2,
                   {"in the middle of a step", "--checkpoint-every 0", "--run", "--resume-from"});
  }
  EXPECT_TRUE(contents_of(store_file("run", "run")) == store);
}

TEST_F(ResumeFault, WhatWouldChangeTheMathematicsHasToBeAllowed) {
  const Words few = {"--steps", "10", "--warmup", "0", "--lr-schedule", "constant"};
  complete("run", few);
  expect_refused("run", few, 2, {"--run run: there is a run in this folder", "--resume"});
  const Words more = few + Words{"--steps", "20", "--resume", "--lr", "1e-4"};
  expect_refused("run", more, 2, {"--lr was '0.0003' and is now '0.0001'", "--allow-change lr"});
  complete("run", more + Words{"--allow-change", "lr"});
  const Results results = logged("run");
  ASSERT_EQ(results.size(), 20);
  EXPECT_EQ(results[9][2], 3e-4);
  EXPECT_EQ(results[10][2], 1e-4);
  // It is the run's own now.
  complete("run", few + Words{"--steps", "30", "--resume", "--lr", "1e-4"});

  expect_refused("run", few + Words{"--lr", "1e-4", "--resume", "--isa", "scalar"}, 2,
                 {"--isa was 'auto' and is now 'scalar'", "--allow-change isa"});
}

// As on a machine that has not what the run was computed with.
TEST_F(ResumeFault, OtherArithmeticHasToBeAllowed) {
  complete("run", {"--checkpoint-every", "1"});
  const std::string file = path("run/arithmetic.json");
  auto arithmetic = nlohmann::json::parse(contents_of(file));
  arithmetic["isa"] = arithmetic["isa"] == "avx2" ? "avx512" : "avx2";
  std::ofstream(file) << arithmetic;
  expect_refused("run", {"--resume"}, 2,
                 {"arithmetic.json", "instruction set", "--allow-change arithmetic"});
  complete("run", {"--resume", "--allow-change", "arithmetic"});
}

TEST_F(ResumeFault, ACompleteRunStaysWhatItIs) {
  complete("run", {"--checkpoint-every", "4"});
  const std::string log = contents_of(path("run/log.jsonl"));
  const std::string weights = weights_of("run");
  const ProcessResult again = train("run", {"--resume"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_PRED2(mentions, again.out, "nothing is left to train");
  EXPECT_EQ(contents_of(path("run/log.jsonl")), log);
  fs::remove_all(path("run.exported"));
  EXPECT_TRUE(weights_of("run") == weights);
}

// One rank has committed what the other has not.
TEST_F(ResumeFault, ARankThatDiesInACommit) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  const Words options = {"--checkpoint-every", "1", "--place", "all=nvme"};
  const ProcessResult whole = train("whole", options, 2);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto process = started(command("run", options, 2), "run");
  const std::vector<pid_t> ranks = children_of(*process);
  ASSERT_EQ(ranks.size(), 2);
  ::kill(ranks[1], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other one waits for it
  ::kill(ranks[1], SIGKILL);
  EXPECT_NE(process->wait().exit_code, 0);
  const ProcessResult rest = train("run", options + Words{"--resume"}, 2);
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(results_of("run"), results_of("whole"));
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
