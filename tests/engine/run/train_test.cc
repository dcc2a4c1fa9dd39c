// `strata train` as a user runs it: it learns, says what it did, and leaves what it promises.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 40;

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    test::write_text(path("text.txt"), 40'000);
    fs::create_directory(path("nvme"));
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  static std::vector<std::string> options() {
    return {"--model",
            "gpt2:layers=2,hidden=64,heads=2,context=64",
            "--data",
            "text.txt",
            "--val-fraction",
            "0.1",
            "--eval-batches",
            "8",
            "--steps",
            std::to_string(kSteps),
            "--global-batch",
            "8",
            "--micro-batch",
            "4",
            "--lr",
            "3e-3",
            "--place",
            "all=nvme",
            "--nvme",
            "nvme",
            "--device-memory",
            "32MiB",
            "--host-memory",
            "32MiB",
            "--matmul-dtype",
            "f32",
            "--threads",
            "1"};
  }

  ProcessResult strata(const std::string& command, std::vector<std::string> arguments,
                       const std::vector<std::string>& more = {}) const {
    arguments.insert(arguments.begin(), {STRATA_BINARY, command});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_process(arguments, folder_.path());
  }
  ProcessResult train(const std::vector<std::string>& more) const {
    ProcessResult result = strata("train", options(), more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result;
  }
  std::vector<json> lines_of(const std::string& name) const {
    return test::json_lines(test::contents_of(path(name)));
  }

 private:
  test::TemporaryFolder folder_;
};

// The text is ten words in random order: ln 10 nats per word of 5.2 bytes, 0.44 nats per byte, for
// a model that has learned it; a model that knows the letters' frequencies alone is at about 2.7.
TEST_F(TrainTest, LearnsATextAndSummarises) {
  const ProcessResult result = train({"--json", "--sample-tokens", "8"});
  const std::vector<json> lines = test::json_lines(result.out);
  ASSERT_GE(lines.size(), kSteps + 1);
  const json& summary = lines.back();
  for (const char* field :
       {"steps", "skipped_steps", "untrained_steps", "loss_first", "loss_last", "val_loss_first",
        "val_loss_last", "device_peak_bytes", "device_budget_bytes", "host_peak_bytes",
        "host_budget_bytes", "resident_peak_bytes", "nvme_read_bytes", "nvme_written_bytes",
        "mean_step_s", "bound_s", "wall_s"}) {
    EXPECT_TRUE(summary.contains(field)) << field;
  }
  EXPECT_EQ(summary["steps"], kSteps);
  EXPECT_NEAR(summary["val_loss_first"], 5.545, 0.1);  // ln 256
  EXPECT_LT(summary["val_loss_last"], 2.5);
  EXPECT_LE(summary["device_peak_bytes"], summary["device_budget_bytes"]);
  EXPECT_LE(summary["host_peak_bytes"], summary["host_budget_bytes"]);
}

TEST_F(TrainTest, TextOutputShowsPlanProgressSampleAndSummary) {
  const ProcessResult result = train({"--sample-tokens", "8", "--sample-prompt", "tier"});
  for (const char* part :
       {"model ", "options    model = gpt2:", "           steps = 40\n", "bytes held", "moment1",
        "budget", "storage ", "step 1/40 ", "step 40/40 ", "  val ", "sample: ", "\nsummary\n",
        "device memory", "NVMe", "bound "}) {
    EXPECT_PRED2(mentions, result.out, part);
  }
}

TEST_F(TrainTest, RunFolderHoldsOptionsPlanAndLog) {
  train({"--run", "run", "--log", "log.jsonl"});
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path("run"))) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"arithmetic.json", "data.json", "lock", "log.jsonl",
                                          "options.json", "plan.json", "profile.jsonl",
                                          "store.json", "timeline.json"}));
  EXPECT_EQ(test::contents_of(path("run/log.jsonl")), test::contents_of(path("log.jsonl")));
  EXPECT_FALSE(fs::is_empty(path("nvme")));

  json plan = json::parse(strata("plan", options(), {"--run", "run", "--resume", "--json"}).out);
  plan.erase("storage");  // what is free now
  plan.erase("machine");  // what is known of it
  EXPECT_EQ(plan, json::parse(test::contents_of(path("run/plan.json"))));
  EXPECT_EQ(plan["resolved"]["threads"], 1);
  EXPECT_EQ(plan["resolved"]["seq_len"], 64);

  const ProcessResult again = strata("train", options(), {"--run", "run"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_PRED2(mentions, again.err,
               "--run run: there is a run in this folder; go on with it by --resume");
}

// And one before them with the first validation loss.
TEST_F(TrainTest, LogHasALinePerStepWithItsFields) {
  train({"--log", "log.jsonl"});
  const std::vector<json> lines = lines_of("log.jsonl");
  ASSERT_EQ(lines.size(), 1 + kSteps);
  const std::set<std::string> fields = {"step",
                                        "epoch",
                                        "loss",
                                        "val_loss",
                                        "lr",
                                        "grad_norm",
                                        "tokens",
                                        "targets",
                                        "padding",
                                        "tokens_per_s",
                                        "mfu",
                                        "step_s",
                                        "cpu_s",
                                        "bound_s",
                                        "device_peak_bytes",
                                        "host_peak_bytes",
                                        "nvme_read_bytes",
                                        "nvme_written_bytes",
                                        "to_device_bytes",
                                        "from_device_bytes",
                                        "gathered_bytes",
                                        "reduced_bytes",
                                        "commit_written_bytes",
                                        "committed_step",
                                        "nvme_by_kind",
                                        "nvme_by_device"};
  for (int step = 0; step <= kSteps; ++step) {
    const json& line = lines[step];
    std::set<std::string> names;
    for (const auto& [name, value] : line.items()) names.insert(name);
    EXPECT_EQ(names, fields);
    EXPECT_EQ(line["step"], step);
    EXPECT_EQ(line["tokens"], step * 8 * 64);
    EXPECT_EQ(line["loss"].is_null(), step == 0);
    EXPECT_EQ(line["val_loss"].is_null(), step != 0 && step != kSteps);
  }
}

// Besides the steps, NVMe is written to initialise the state and to measure the drive, and read to
// measure and to evaluate. But for the measuring that is the same for runs of any length, so that
// the difference of two runs is that of their steps.
TEST_F(TrainTest, BytesOfTheStepsAddUpToTheSummary) {
  struct Bytes {
    std::int64_t steps = 0;
    std::int64_t all = 0;  // but for those that measured
  };
  const auto bytes_of = [&](const std::string& steps, const std::string& clip,
                            const std::string& link) {
    const std::string field = "nvme_" + link;
    const std::string log = "log-" + steps + clip + field;
    const ProcessResult result =
        train({"--json", "--steps", steps, "--clip-norm", clip, "--log", log});
    Bytes bytes;
    for (const json& line : lines_of(log)) {
      if (line["step"] > 0) bytes.steps += line[field].get<std::int64_t>();
    }
    const json summary = test::json_lines(result.out).back();
    bytes.all = summary[field].get<std::int64_t>() -
                summary["nvme"]["by_kind"]["measuring"][link].get<std::int64_t>();
    return bytes;
  };
  for (const char* clip : {"1", "0"}) {  // deferred, in backward
    for (const char* link : {"read_bytes", "written_bytes"}) {
      const Bytes few = bytes_of("2", clip, link);
      const Bytes many = bytes_of("5", clip, link);
      EXPECT_GT(few.steps, 0);
      EXPECT_EQ(many.all - few.all, many.steps - few.steps) << link << ", clip " << clip;
    }
  }
}

TEST_F(TrainTest, PlanSaysWhatItNeedsOnNvme) {
  const std::vector<std::string> without = {"--nvme", ""};
  const ProcessResult text = strata("plan", options(), without);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_PRED2(mentions, text.out,
               "It fits, with a directory for NVMe (--nvme or --run) that has ");
  const json plan = json::parse(strata("plan", options(), {"--nvme", "", "--json"}).out);
  EXPECT_TRUE(plan["storage"]["directories"].empty());
  // The state, and the store's description of it.
  EXPECT_GE(plan["storage"]["needed_bytes"], plan["tiers"]["nvme"]["total_bytes"]);
  EXPECT_PRED2(mentions, strata("plan", options()).out, "\nIt fits: it needs ");
  const json here = json::parse(strata("plan", options(), {"--json"}).out)["storage"];
  EXPECT_EQ(here["directories"][0]["path"], "nvme");
  EXPECT_GT(here["directories"][0]["free_bytes"], here["needed_bytes"]);
  EXPECT_EQ(here["needed_bytes"], plan["storage"]["needed_bytes"]);
  EXPECT_PRED2(mentions, strata("plan", options(), {"--place", "all=host"}).out, "\nIt fits.\n");
}

TEST_F(TrainTest, PlanRefusesWhatTrainRefuses) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--nvme", "none"}, {"--data", "none.txt"}}) {
    const ProcessResult plan = strata("plan", options(), wrong);
    EXPECT_EQ(plan.exit_code, 2);
    EXPECT_PRED2(mentions, plan.err, wrong[0] + ": ");
    EXPECT_EQ(plan.err, strata("train", options(), wrong).err);
  }
}

TEST_F(TrainTest, APlanThatDoesNotFitIsAnObjectToo) {
  const ProcessResult result = strata("plan", options(), {"--device-memory", "1MiB", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const json plan = json::parse(result.out);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["tier"], "device");
  EXPECT_EQ(plan["budget_bytes"], 1 << 20);
  EXPECT_GT(plan["needed_bytes"], plan["budget_bytes"]);
  EXPECT_PRED2(mentions, result.err, plan["reason"].get<std::string>());
}

TEST_F(TrainTest, ConfigFileEqualsTheCommandLine) {
  train({"--run", "run"});
  EXPECT_EQ(strata("train", {"--config", "run/options.json", "--run", "again"}).exit_code, 0);
  const std::vector<json> first = lines_of("run/log.jsonl");
  const std::vector<json> second = lines_of("again/log.jsonl");
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (const char* field : {"loss", "grad_norm", "val_loss", "lr", "nvme_read_bytes"}) {
      EXPECT_EQ(first[i][field], second[i][field]) << field << " of step " << i;
    }
  }
  EXPECT_EQ(test::contents_of(path("run/plan.json")), test::contents_of(path("again/plan.json")));
}

}  // namespace
}  // namespace strata::engine
