// The program tunes: what it shows can be run, what it measures stands beside what it predicts, and
// a run whose memory it chooses computes the same bits.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/options/exit_code.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::mentions;
using Words = std::vector<std::string>;

class Tune : public ::testing::Test {
 protected:
  Tune() {
    test::write_text(folder_.path("text.txt"), 8'000);
    setenv("XDG_CACHE_HOME", folder_.path("cache").c_str(), 1);  // rates of this test alone
  }

  test::ProcessResult run(const std::string& command, const Words& more) const {
    Words words = {STRATA_BINARY,
                   command,
                   "--model",
                   "gpt2:layers=2,hidden=64,heads=2,"
                   "context=32",
                   "--data",
                   "text.txt",
                   "--nvme",
                   ".",
                   "--steps",
                   "3",
                   "--global-batch",
                   "2",
                   "--threads",
                   "1",
                   "--matmul-dtype",
                   "f32",
                   "--precision",
                   "f32"};
    words.insert(words.end(), more.begin(), more.end());
    return test::run_process(words, folder_.path());
  }

  json tune(Words more) const {
    more.emplace_back("--json");
    const test::ProcessResult result = run("tune", more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }

  // Losses of the steps.
  static std::vector<double> losses(const test::ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> values;
    for (const json& line : test::json_lines(result.out)) {
      if (line.contains("loss") && line["loss"].is_number()) values.push_back(line["loss"]);
    }
    return values;
  }

  test::TemporaryFolder folder_;
};

const Words kSmall = {"--device-memory", "16MiB", "--host-memory", "64MiB"};

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(Tune, ItsCommandsTrain) {
  const json report = tune(kSmall + Words{"--plans", "2"});
  ASSERT_EQ(report["plans"].size(), 2U);
  for (const json& plan : report["plans"]) {
    EXPECT_GT(plan["step_s"], 0);
    EXPECT_LE(plan["device_bytes"], 16 << 20);
    Words words = {STRATA_BINARY};
    for (const json& word : plan["arguments"]) words.push_back(word);
    const test::ProcessResult trained = test::run_process(words, folder_.path());
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
}

TEST_F(Tune, TheMachineIsMeasuredOnce) {
  EXPECT_EQ(tune(kSmall)["rates"], "rates measured now");
  EXPECT_TRUE(mentions(tune(kSmall)["rates"], "as measured before"));
  EXPECT_EQ(tune(kSmall + Words{"--refresh"})["rates"], "rates measured now");
}

TEST_F(Tune, MeasuresWhatItPredicts) {
  const json report = tune(kSmall + Words{"--measure", "--plans", "1"});
  const json& measured = report["plans"][0]["measured"];
  EXPECT_TRUE(measured["failures"].empty()) << measured;
  const std::size_t rounds = measured["step_s"].size() / 3;
  EXPECT_EQ(measured["step_s"].size(), 3 * rounds);
  EXPECT_GE(rounds, 2U);
  EXPECT_LE(rounds, 6U);
  EXPECT_GT(measured["median_s"], 0);
  EXPECT_TRUE(mentions(report["rates"],
                       fmt::format("measured {} times, before and after each", rounds + 1)));
}

// Steps so long that the first one leaves the numbers.
TEST_F(Tune, AnErrorWhereNoPlanTrains) {
  const test::ProcessResult result =
      run("tune", kSmall + Words{"--measure", "--plans", "1", "--lr", "1e6"});
  EXPECT_EQ(result.exit_code, kExitFailed) << result.out;
  EXPECT_TRUE(mentions(result.out, "failed: ")) << result.out;
  EXPECT_TRUE(mentions(result.err, "strata: error: --measure: no plan trained; the first one: "))
      << result.err;
}

TEST_F(Tune, EveryFormatIsMeasured) {
  const Words formats = {"--vary", "moments,grad-dtype", "--plans", "1"};
  tune(kSmall + formats);
  for (const std::string moments : {"f32", "bf16", "int8"}) {
    const json known = tune(kSmall + Words{"--vary", "none", "--plans", "1", "--moments", moments});
    EXPECT_TRUE(mentions(known["rates"], "as measured before")) << moments;
  }
}

TEST_F(Tune, SaysWhatBecomesOfACacheThatIsNotUsed) {
  EXPECT_EQ(run("tune", kSmall).err, "");
  for (const auto& file : std::filesystem::directory_iterator(folder_.path("cache/strata"))) {
    std::ofstream(file.path()) << "{}";
  }
  EXPECT_TRUE(mentions(run("plan", kSmall).err, ".json is not used: ")) << "plan";
  EXPECT_TRUE(mentions(run("tune", kSmall).err, ".json is not used: ")) << "tune";
  EXPECT_EQ(run("tune", kSmall).err, "");
}

TEST_F(Tune, ItsCommandsGoOnWithARun) {
  const Words of_run = {"--run", "run"};
  EXPECT_EQ(run("train", of_run).exit_code, 0);
  const Words on = {"--run", "run", "--resume", "--steps", "4", "--allow-change", "steps"};
  const json report = tune(on + Words{"--plans", "2"});
  for (const json& plan : report["plans"]) {
    EXPECT_TRUE(plan["changes_bits"].empty()) << plan;
    Words words = {STRATA_BINARY};
    for (const json& word : plan["arguments"]) words.push_back(word);
    const test::ProcessResult trained = test::run_process(words, folder_.path());
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
}

TEST_F(Tune, PlanKnowsTheTimeOfAStepOnceTheMachineWasMeasured) {
  const Words memory = {"--device-memory", "auto", "--host-memory", "auto"};
  EXPECT_TRUE(mentions(run("plan", kSmall).out, "strata tune with these options measures"));
  const test::ProcessResult refused = run("plan", memory);
  EXPECT_EQ(refused.exit_code, kExitUsage);
  EXPECT_TRUE(mentions(refused.err, "was not measured for this model yet")) << refused.err;
  const json tuned = tune({"--vary", "none", "--plans", "1"})["plans"][0];
  const json planned = json::parse(run("plan", memory + Words{"--json"}).out);
  EXPECT_EQ(planned["machine"]["step_s"], tuned["step_s"]);
  EXPECT_TRUE(mentions(planned["machine"]["rates"], "as measured before"));
  EXPECT_EQ(json::parse(run("plan", kSmall + Words{"--json"}).out)["machine"].count("bound"), 1U);
}

// The arithmetic is given: it is chosen by timing otherwise.
TEST_F(Tune, MemoryThatIsChosenChangesNoBit) {
  const Words log = {"--json"};
  const auto chosen = run("train", log + Words{"--device-memory", "auto", "--host-memory", "auto"});
  EXPECT_TRUE(mentions(chosen.err, "auto: ")) << chosen.err;
  EXPECT_TRUE(mentions(chosen.err, "free; a step is predicted to take")) << chosen.err;
  const auto fixed = run("train", log + kSmall + Words{"--place", "all=nvme"});
  EXPECT_EQ(losses(chosen).size(), 3U);
  EXPECT_EQ(losses(chosen), losses(fixed));
}

TEST_F(Tune, ARunWithAFolderGoesOnWithTheMemoryThatWasChosen) {
  const Words run_words = {"--run", "run", "--json", "--checkpoint-every", "2"};
  const auto begun =
      run("train", run_words + Words{"--device-memory", "auto", "--host-memory", "auto"});
  EXPECT_EQ(begun.exit_code, 0) << begun.err;
  const auto on =
      run("train", run_words + Words{"--resume", "--steps", "5", "--allow-change", "steps"});
  EXPECT_EQ(on.exit_code, 0) << on.err;
  EXPECT_FALSE(mentions(on.err, "auto: "));
}

TEST_F(Tune, RefusesWhatContradictsItself) {
  const auto error = [&](const Words& more) {
    const test::ProcessResult result = run("tune", more);
    EXPECT_EQ(result.exit_code, kExitUsage) << result.out;
    return result.err;
  };
  EXPECT_TRUE(mentions(error({"--measure", "--machine", "m.json"}), "--machine describes another"));
  EXPECT_TRUE(mentions(error({"--refresh", "--machine", "m.json"}), "--refresh measures this"));
  EXPECT_TRUE(mentions(error({"--vary", "lr"}), "--vary: 'lr' is none of"));
  EXPECT_TRUE(mentions(error({"--nvme", "nowhere"}), "--nvme: "));
  EXPECT_TRUE(mentions(error({"--top-k", "3"}), "strata tune does not have this option"));
}

}  // namespace
}  // namespace strata::engine
