// `strata plan --machine`: a run planned and predicted for a machine that is only described.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/support/error_text.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::ProcessResult;
using test::TemporaryFolder;

const std::string kModel = "gpt2:layers=6,hidden=1024,heads=16,context=128,vocab=8192";

ProcessResult plan_on(const std::string& machine, std::vector<std::string> more) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {
      STRATA_BINARY, "plan", "--machine", STRATA_SOURCE_DIR "/docs/machines/" + machine,
      "--model",     kModel};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return test::run_process(arguments, folder.path());
}

nlohmann::json json_on(const std::string& machine, std::vector<std::string> more) {
  more.insert(more.end(), {"--json"});
  const ProcessResult result = plan_on(machine, more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(PlanMachine, TellsTheTimeOfAStepOnAMachineThatIsNotHere) {
  const nlohmann::json plan =
      json_on("workstation-24gb.json", {"--global-batch", "8", "--steps", "1000"});
  EXPECT_EQ(plan["resolved"]["device"], "cuda");
  EXPECT_EQ(plan["resolved"]["threads"], 16);
  EXPECT_EQ(plan["resolved"]["device_memory_bytes"], std::int64_t{23} << 30);
  const nlohmann::json& machine = plan["machine"];
  const double step_s = machine["step_s"];
  EXPECT_GE(step_s, machine["bound"]["seconds"].get<double>());
  // 8 sequences of 128 tokens, and 86,400 seconds in a day.
  EXPECT_NEAR(machine["tokens_per_s"].get<double>() * step_s, 8 * 128, 1e-6);
  EXPECT_NEAR(machine["run_days"].get<double>() * 86'400, 1000 * step_s, 1e-9 * 1000 * step_s);
}

// Against the same run with all state in host memory, a GPU that updates passes in forward over 28
// bytes an element: weight, remainder and two moments read and written, the gradient read. In
// backward over 12: the gradient copied to its place and read for the norm; the tied table's over
// 20 more, for its first contribution is copied and the second one added.
TEST(PlanMachine, ADescribedGpuUpdatesAtTheRateOfItsMemory) {
  constexpr double kBytesPerS = 1008e9;  // of docs/machines/workstation-24gb.json
  constexpr std::int64_t kHidden = 1024;
  const auto padded = [](std::int64_t elements) { return round_up(elements, 4096); };
  const std::int64_t table = padded(8192 * kHidden);
  const std::int64_t blocks = 6 * padded(12 * kHidden * kHidden + 13 * kHidden);
  const std::int64_t all = table + padded(128 * kHidden) + blocks + padded(2 * kHidden);
  const auto bound = [](const std::string& place) -> nlohmann::json {
    return json_on("workstation-24gb.json",
                   {"--global-batch", "1", "--place", place})["machine"]["bound"];
  };
  const nlohmann::json there = bound("all=device");
  const nlohmann::json host = bound("all=host");
  const auto more_s = [&](const char* phase) {
    return there[phase]["gpu_s"].get<double>() - host[phase]["gpu_s"].get<double>();
  };
  const auto seconds = [&](std::int64_t bytes) { return static_cast<double>(bytes) / kBytesPerS; };
  EXPECT_NEAR(more_s("forward"), seconds(28 * all), 1e-12);
  EXPECT_NEAR(more_s("backward"), seconds(12 * all + 20 * table), 1e-12);
  EXPECT_EQ(there["forward"]["cores"]["optimizer_s"], 0);
  EXPECT_GT(host["forward"]["cores"]["optimizer_s"], 0);
  EXPECT_EQ(there["backward"]["cores"]["gradients_s"], 0);
}

TEST(PlanMachine, EveryRankHasItsShareOfManyHosts) {
  const nlohmann::json plan = json_on("dgx2-32nodes.json", {"--global-batch", "512"});
  EXPECT_EQ(plan["world_size"], 512);
  EXPECT_GT(plan["machine"]["bound"]["forward"]["network_s"].get<double>(), 0);
  EXPECT_FALSE(plan["machine"].contains("run_days"));  // no --steps
}

TEST(PlanMachine, ItsDrivesAreTheSpace) {
  const ProcessResult result = plan_on(
      "workstation-24gb.json", {"--place", "all=nvme", "--global-batch", "8", "--steps", "10000"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, "drive 2 (Samsung 990 PRO 2TB) has 1.82 TiB free");
  EXPECT_PRED2(mentions, result.out, "1200 TBW");
  EXPECT_PRED2(mentions, result.out, "tokens per second");
  const ProcessResult none = plan_on("llmq-4090.json", {"--place", "all=nvme"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_PRED2(mentions, none.err, "its drives have 0 B");
}

// What tune finds for a machine can be pasted into plan for it, which predicts the same step.
TEST(PlanMachine, TheCommandsThatTuneShowsPlanThere) {
  for (const char* const machine : {"workstation-24gb.json", "cpu-server.json"}) {
    const TemporaryFolder folder;
    const std::string file = std::string(STRATA_SOURCE_DIR "/docs/machines/") + machine;
    const ProcessResult tuned = test::run_process(
        {STRATA_BINARY, "tune", "--machine", file, "--model", kModel, "--global-batch", "8",
         "--plans", "3", "--place", "moments=nvme", "--json"},
        folder.path());
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    const nlohmann::json found = nlohmann::json::parse(tuned.out);
    for (const nlohmann::json& plan : found["plans"]) {
      std::vector<std::string> words = {STRATA_BINARY, "plan", "--machine", file, "--json"};
      for (std::size_t i = 1; i < plan["arguments"].size(); ++i) {
        words.push_back(plan["arguments"][i]);
      }
      const ProcessResult planned = test::run_process(words, folder.path());
      ASSERT_EQ(planned.exit_code, 0) << planned.err;
      EXPECT_EQ(nlohmann::json::parse(planned.out)["machine"]["step_s"], plan["step_s"]);
      const auto host = std::find(words.begin(), words.end(), "--host-memory");
      ASSERT_LT(host, words.end() - 1);
      EXPECT_EQ(parse_bytes(*(host + 1)), round_up(plan["host_bytes"].get<std::int64_t>(), kMiB));
    }
  }
}

TEST(PlanMachine, WhatContradictsItIsRefused) {
  EXPECT_PRED2(mentions, plan_on("cpu-server.json", {"--device", "cuda"}).err, "describes no GPU");
  EXPECT_PRED2(mentions, plan_on("llmq-4090.json", {"--nvme", "/tmp"}).err,
               "--nvme and --machine exclude each other: it describes no drives");
  EXPECT_PRED2(mentions, plan_on("cpu-server.json", {"--threads", "4"}).err,
               "--threads and --machine exclude each other");
  EXPECT_PRED2(mentions, plan_on("workstation-24gb.json", {"--device-memory", "24GiB"}).err,
               "23 GiB");
  EXPECT_PRED2(mentions, plan_on("no-such-machine.json", {}).err, "there is no such file");
}

}  // namespace
}  // namespace strata::engine
