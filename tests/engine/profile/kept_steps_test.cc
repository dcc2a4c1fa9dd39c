// Of a run's steps the slowest and the median are kept, online, and written with their spans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "engine/profile/kept_steps.h"
#include "engine/profile/profile_json.h"
#include "engine/profile/profile_table.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using nlohmann::json;

StepProfile profile_of(std::int64_t step, std::int64_t wall_ns) {
  StepProfile profile;
  profile.step = step;
  profile.begin_ns = 1'000'000;
  profile.wall_ns = wall_ns;
  return profile;
}

TEST(KeptSteps, TheFirstStepIsKeptOnlyWhileItIsAlone) {
  KeptSteps steps;
  steps.add(profile_of(1, 900'000'000), {});
  EXPECT_EQ(steps.slowest().profile.step, 1);
  EXPECT_EQ(steps.median().profile.step, 1);
  steps.add(profile_of(2, 100'000'000), {});
  EXPECT_EQ(steps.slowest().profile.step, 2);
  EXPECT_EQ(steps.median().profile.step, 2);
}

// Bins are 1 % wide and a step is kept that came nearest to the median as it then was: with 2,000
// steps drawn from one distribution that median is within 2 % of the last one, so that the kept
// step is within 5 %.
TEST(KeptSteps, TheMedianIsFoundOnlineAndTheSlowestExactly) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> duration(std::log(2e8), 0.3);
  KeptSteps steps;
  std::vector<std::int64_t> walls;
  for (int step = 1; step <= 2000; ++step) {
    const auto wall_ns = static_cast<std::int64_t>(duration(random));
    if (step > 1) walls.push_back(wall_ns);
    steps.add(profile_of(step, wall_ns), {{"op", step, step + 1, -1, 0}});
  }
  EXPECT_EQ(steps.slowest().profile.wall_ns, *std::max_element(walls.begin(), walls.end()));
  EXPECT_EQ(steps.slowest().spans.front().begin_ns, steps.slowest().profile.step)
      << "its own spans are kept";
  std::nth_element(walls.begin(), walls.begin() + 1000, walls.end());
  const auto median = static_cast<double>(walls[1000]);
  EXPECT_NEAR(static_cast<double>(steps.median().profile.wall_ns), median, 0.05 * median);
}

KeptSteps one_step(const std::vector<Tracer::Span>& spans, std::int64_t wall_ns) {
  KeptSteps steps;
  steps.add(profile_of(4, wall_ns), spans);
  return steps;
}

TEST(Timeline, HasTheSpansOfTheStepInMicroseconds) {
  const json timeline = json::parse(timeline_json(one_step({{"linear", 1'100'000, 1'300'000, -1, 1},
                                                            {"read", 900'000, 1'200'000, 10, 0},
                                                            {"read", 1'150'000, 1'400'000, 30, 0}},
                                                           1'000'000),
                                                  {"nvme read", "compute", "unused"}));
  const json& step = timeline["median"];
  EXPECT_EQ(step["profile"]["step"], 4);
  EXPECT_EQ(step["rows"], (json{"nvme read", "compute"}));
  EXPECT_EQ(step["names"], (json{"read", "linear"}));
  // Requests that overlap are one span; what lies before the step is cut off.
  EXPECT_EQ(step["spans_us"], json::parse("[[0,0,0,400,40],[1,1,100,200]]"));
  EXPECT_EQ(step["left_out_spans"], 0);
}

TEST(Timeline, IsBounded) {
  constexpr std::int64_t kWallNs = 1'000'000'000;
  std::vector<Tracer::Span> spans;
  const char* const names[] = {"a", "b"};
  std::int64_t at = 1'000'000;
  for (int i = 0; i < 100'000; ++i) {
    const std::int64_t length = i % 4 == 0 ? 9'000 : 2'000;
    spans.push_back({names[i % 2], at, at + length, -1, 0});
    at += length;
  }
  const std::string text = timeline_json(one_step(spans, kWallNs), {"compute"});
  const json step = json::parse(text)["slowest"];
  EXPECT_LE(step["spans_us"].size(), 20'000u);
  EXPECT_EQ(step["spans_us"].size() + step["left_out_spans"].get<std::size_t>(), 100'000u);
  EXPECT_LT(text.size(), 2'000'000u);
}

StepProfile busy_drive() {
  StepProfile profile = profile_of(7, 1'000'000);
  profile.rows.push_back({"cores", {{"compute", 400'000}}, {}});
  profile.rows.push_back({"drive", {{"read", 700'000}, {"write", 200'000}}, {}});
  profile.rows[0].idle_ns[static_cast<std::size_t>(Idle::read)] = 600'000;
  profile.rows[1].idle_ns[static_cast<std::size_t>(Idle::update)] = 100'000;
  return profile;
}

TEST(ProfileTable, ShowsSharesAndWhatLimits) {
  StepProfile profile = busy_drive();
  EXPECT_EQ(limit_text(profile),
            "limited by the drive: at work 90.0% of the step (read 70.0, write 20.0)");
  const std::string table = profile_table(profile);
  EXPECT_PRED2(test::mentions, table, "  cores          40.0     60.0         \n");
  EXPECT_PRED2(test::mentions, table, "  drive          90.0              10.0\n");
  EXPECT_FALSE(test::mentions(table, "did not fit"));
  profile.dropped_spans = 3;
  EXPECT_PRED2(test::mentions, profile_table(profile), "3 spans of this step did not fit");
  profile.rows[1].work = {{"read", 500'000}};
  EXPECT_EQ(limit_text(profile),
            "limited by no resource alone: the cores at work 40.0%, waiting for read 60.0%; the "
            "drive at work 50.0%, waiting for update 10.0%");
  profile.rows[1].work.clear();
  profile.rows[1].idle_ns = {};
  profile.rows[1].idle_ns[static_cast<std::size_t>(Idle::nothing)] = profile.wall_ns;
  EXPECT_FALSE(test::mentions(limit_text(profile) + profile_table(profile), "drive"));
}

TEST(ProfileLine, IsOneObjectWithTotals) {
  ProfileLine line;
  append_profile_line(line, busy_drive(), {1, 2, 3, 4});
  const json parsed = json::parse(std::string_view(line.data(), line.size()));
  EXPECT_EQ(parsed["step"], 7);
  EXPECT_EQ(parsed["held_bytes"], (json{{"device", 1}, {"host", 2}, {"nvme", 3}, {"resident", 4}}));
  EXPECT_DOUBLE_EQ(parsed["rows"]["drive"]["work"], 0.0009);
  EXPECT_DOUBLE_EQ(parsed["rows"]["cores"]["read"], 0.0006);
  EXPECT_FALSE(parsed["rows"]["cores"].contains("write"));
}

}  // namespace
}  // namespace strata::engine
