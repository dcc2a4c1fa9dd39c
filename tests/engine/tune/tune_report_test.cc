// What tune says of a plan: times, wear, errors, and a command that a shell reads back.
#include "engine/tune/tune_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tune/command_text.h"
#include "tests/engine/tune/tiny_search.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::MeasuredSteps;
using engine::RankedPlan;

constexpr double kStepS = 0.5;

struct Reported {
  engine::Options base;
  std::vector<RankedPlan> plans;
  std::vector<MeasuredSteps> measured;
  std::vector<engine::DriveLife> drives;
  std::int64_t steps = 0;

  engine::TuneReport report() const {
    return {base, plans, measured, steps, drives, "invented", {}, {}};
  }
};

Reported reported() {
  const std::vector<std::string> options = {"--nvme", "x", "--place", "all=nvme"};
  Reported result{tiny_options(options), tiny_search(options, {}, 1), {}, {}, 0};
  result.plans.front().prediction.step_s = kStepS;
  return result;
}

TEST(TuneReport, LengthAndTokensFollowFromTheStep) {
  Reported run = reported();
  run.steps = 1000;
  const nlohmann::json plan = engine::tune_json(run.report())["plans"][0];
  EXPECT_DOUBLE_EQ(plan["run_s"], 1000 * kStepS);
  EXPECT_DOUBLE_EQ(plan["tokens_per_s"], 4 * 32 / kStepS);  // sequences times tokens
}

TEST(TuneReport, ADriveLivesAsLongAsItsEnduranceLasts) {
  Reported run = reported();
  const double a_day =
      86400 / kStepS * static_cast<double>(run.plans.front().setup.plan.nvme_written_bytes());
  run.drives = {{"a", 0.75, static_cast<std::int64_t>(75 * a_day)},
                {"b", 0.25, static_cast<std::int64_t>(50 * a_day)}};
  const nlohmann::json plan = engine::tune_json(run.report())["plans"][0];
  EXPECT_NEAR(plan["nvme_written_bytes_per_day"].get<double>() / a_day, 1, 1e-12);
  EXPECT_NEAR(plan["drive_life_days"], 100, 1e-6);
}

TEST(TuneReport, MeasurementsStandBesideThePrediction) {
  Reported run = reported();
  run.measured = {{.step_s = {0.4, 9, 0.3}, .run_s = {}, .failures = {"strata: error: no space"}}};
  const nlohmann::json plan = engine::tune_json(run.report())["plans"][0];
  EXPECT_DOUBLE_EQ(plan["measured"]["median_s"], 0.4);
  EXPECT_DOUBLE_EQ(plan["measured"]["error"], 0.25);
  const std::string text = engine::tune_text(run.report());
  EXPECT_TRUE(mentions(text, "+25.0%")) << text;
  EXPECT_TRUE(mentions(text, "failed: strata: error: no space")) << text;
}

TEST(TuneReport, APlanThatNeverRanIsNotHidden) {
  Reported run = reported();
  run.measured = {{.step_s = {}, .run_s = {}, .failures = {"ended by signal 9"}}};
  const std::string text = engine::tune_text(run.report());
  EXPECT_TRUE(mentions(text, "failed: ended by signal 9")) << text;
  EXPECT_FALSE(engine::tune_json(run.report())["plans"][0]["measured"].contains("median_s"));
}

TEST(TuneReport, ChangedBitsAreNamed) {
  Reported run = reported();
  run.plans.front().options.micro_batch = 4;
  EXPECT_TRUE(mentions(engine::tune_text(run.report()),
                       "other weights than with the options as "
                       "given: --micro-batch"));
}

TEST(CommandText, QuotesWhatAShellWouldChange) {
  engine::Options options = tiny_options({"--data", "it's here/*.bin", "--from-scratch"});
  options.json = true;
  const std::string text = engine::train_command(options);
  EXPECT_TRUE(
      text.starts_with("strata train --model gpt2:layers=6,hidden=64,heads=2,context=32 "
                       "--from-scratch --data 'it'\\''s here/*.bin' "))
      << text;
  EXPECT_FALSE(mentions(text, "--json")) << text;
}

}  // namespace
}  // namespace strata::test
