#include "engine/step/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/base/error.h"

namespace strata::engine {
namespace {

using Shape = LrSchedule::Shape;
constexpr double kRounding = 1e-15;  // a few f64 operations on numbers below 1

TEST(LrSchedule, WarmupIsLinearToThePeak) {
  for (const Shape shape : {Shape::cosine, Shape::linear, Shape::constant, Shape::wsd}) {
    const LrSchedule schedule(shape, 0.5, 0.1, 4, 100);
    EXPECT_DOUBLE_EQ(schedule.at(1), 0.125);
    EXPECT_DOUBLE_EQ(schedule.at(2), 0.25);
    EXPECT_DOUBLE_EQ(schedule.at(4), 0.5);
    EXPECT_DOUBLE_EQ(schedule.at(5), 0.5);  // the schedule begins at the peak
  }
}

TEST(LrSchedule, Cosine) {
  const LrSchedule schedule(Shape::cosine, 0.9, 0.1, 10, 50);
  EXPECT_NEAR(schedule.at(11), 0.9, kRounding);
  EXPECT_NEAR(schedule.at(21), 0.5 + 0.4 * std::sqrt(0.5), kRounding);  // a quarter: 45 degrees
  EXPECT_NEAR(schedule.at(31), 0.5, kRounding);                         // half way
  EXPECT_NEAR(schedule.at(41), 0.5 - 0.4 * std::sqrt(0.5), kRounding);
  EXPECT_GT(schedule.at(50), 0.1);
  EXPECT_NEAR(schedule.at(51), 0.1, kRounding);
  EXPECT_NEAR(schedule.at(1000), 0.1, kRounding);
}

TEST(LrSchedule, Linear) {
  const LrSchedule schedule(Shape::linear, 1, 0, 0, 8);
  for (int step = 1; step <= 8; ++step)
    EXPECT_NEAR(schedule.at(step), 1 - (step - 1) / 8.0, kRounding);
  EXPECT_EQ(schedule.at(9), 0);
}

TEST(LrSchedule, ConstantNeverEnds) {
  const LrSchedule schedule(Shape::constant, 3e-4, 0, 0, 10);
  EXPECT_EQ(schedule.at(1), 3e-4);
  EXPECT_EQ(schedule.at(10), 3e-4);
  EXPECT_EQ(schedule.at(11), 3e-4);
}

TEST(LrSchedule, WsdDecaysInTheLastFifth) {
  const LrSchedule schedule(Shape::wsd, 1, 0.2, 10, 100);
  EXPECT_EQ(schedule.at(80), 1);
  EXPECT_EQ(schedule.at(81), 1);                             // q = 0
  EXPECT_NEAR(schedule.at(86), 0.2 + 0.8 * 0.5, kRounding);  // q = 1/4, its root 1/2
  EXPECT_NEAR(schedule.at(101), 0.2, kRounding);
}

TEST(LrSchedule, WsdWithWarmupIntoTheLastFifth) {
  const LrSchedule schedule(Shape::wsd, 1, 0, 96, 100);
  EXPECT_NEAR(schedule.at(96), 1, kRounding);
  EXPECT_NEAR(schedule.at(98), 0.5, kRounding);  // q = 1/4 of the four steps left
}

TEST(LrSchedule, WarmupMayFillTheRun) {
  const LrSchedule schedule(Shape::cosine, 1, 0, 5, 5);
  EXPECT_EQ(schedule.at(5), 1);
  EXPECT_NEAR(schedule.at(6), 0, kRounding);
  EXPECT_THROW(LrSchedule(Shape::cosine, 1, 0, 6, 5), ConfigError);
}

TEST(LrSchedule, RefusesAnEndAboveThePeak) {
  EXPECT_THROW(LrSchedule(Shape::linear, 1e-4, 1e-3, 0, 5), ConfigError);
  EXPECT_THROW(LrSchedule(Shape::linear, 1e-4, std::nan(""), 0, 5), ConfigError);
}

TEST(ParseWarmup, StepsOrPercent) {
  EXPECT_EQ(parse_warmup("0", 1000), 0);
  EXPECT_EQ(parse_warmup("100", 1000), 100);
  EXPECT_EQ(parse_warmup("3%", 1000), 30);
  EXPECT_EQ(parse_warmup("0.25%", 1000), 3);  // 2.5 rounds up
  EXPECT_EQ(parse_warmup("100%", 7), 7);
  for (const char* text : {"", "%", "-1", "-1%", "101%", "1.5", "3 %", "3%%", "x", "10steps",
                           "nan%", "99999999999999999999"}) {
    EXPECT_THROW((void)parse_warmup(text, 1000), ConfigError) << text;
  }
}

TEST(ParseLrShape, KnowsItsNames) {
  EXPECT_EQ(parse_lr_shape("cosine"), Shape::cosine);
  EXPECT_EQ(parse_lr_shape("linear"), Shape::linear);
  EXPECT_EQ(parse_lr_shape("constant"), Shape::constant);
  EXPECT_EQ(parse_lr_shape("wsd"), Shape::wsd);
  EXPECT_THROW((void)parse_lr_shape("Cosine"), ConfigError);
  EXPECT_THROW((void)parse_lr_shape(""), ConfigError);
}

}  // namespace
}  // namespace strata::engine
