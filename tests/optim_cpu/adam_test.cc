// Adam's numbers: against PyTorch, and against the textbook formula in double precision.
#include "optim_cpu/adam.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/optim_cpu/adam_goldens.h"
#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

constexpr double kF32Rounding = 0x1p-24;  // relative error of one f32 operation
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Moments {
  double w, m, v;
};

// Kingma & Ba 2015, algorithm 1, with L2 or decoupled decay (Loshchilov & Hutter 2019, algorithm 2
// with the decay times the learning rate, as PyTorch has it).
Moments textbook(const AdamStep& step, Moments s, double gradient) {
  const double beta1 = step.beta1, beta2 = step.beta2, lr = step.learning_rate;
  const double decay = step.weight_decay, t = static_cast<double>(step.step);
  double g = gradient * step.gradient_scale;
  if (step.method == Method::adam) g += decay * s.w;
  const double m = beta1 * s.m + (1 - beta1) * g;
  const double v = beta2 * s.v + (1 - beta2) * g * g;
  const double m_hat = m / (1 - std::pow(beta1, t));
  const double v_hat = v / (1 - std::pow(beta2, t));
  const double w = step.method == Method::adamw ? s.w * (1 - lr * decay) : s.w;
  return {w - lr * m_hat / (std::sqrt(v_hat) + step.epsilon), m, v};
}

TEST(Adam, MatchesPyTorch) {
  for (const Method method : {Method::adamw, Method::adam}) {
    std::mt19937 random(1);
    Arrays arrays(kGoldenElements, random);
    for (int i = 0; i < kGoldenElements; ++i) {
      arrays.master[i] = static_cast<float>(2 * i - 7) / 16;
      arrays.weight[i] = split_master(arrays.master[i]).weight;
      arrays.remainder[i] = split_master(arrays.master[i]).remainder;
      arrays.moment1[i] = arrays.moment2[i] = 0;
    }
    Arrays split_arrays = arrays;
    AdamStep step{.method = method, .learning_rate = 1.0f / 128, .weight_decay = 0.125f};
    for (step.step = 1; step.step <= kGoldenSteps; ++step.step) {
      for (int i = 0; i < kGoldenElements; ++i) {
        const auto g = static_cast<float>((7 * i + 5 * step.step) % 11 - 5) / 16;
        arrays.gradient[i] = split_arrays.gradient[i] = g;
      }
      ASSERT_TRUE(adam_update(step, arrays.f32(Dtype::f32, 0, kGoldenElements), best_isa()));
      ASSERT_TRUE(
          adam_update(step, split_arrays.split(Dtype::f32, 0, kGoldenElements), best_isa()));
    }
    // Per step: one rounding of a weight below 1, and a change of at most 4 lr that is off by its
    // 16 operations and constants.
    constexpr double kTolerance = kGoldenSteps * (kF32Rounding + 4.0 / 128 * 16 * kF32Rounding);
    const double* golden = method == Method::adamw ? kAdamWWeights : kAdamWeights;
    for (int i = 0; i < kGoldenElements; ++i) {
      EXPECT_NEAR(arrays.master[i], golden[i], kTolerance) << name_of(best_isa()) << ' ' << i;
      EXPECT_EQ(arrays.master[i], split_arrays.joined(i));
    }
  }
}

TEST(Adam, MatchesTheTextbookFormula) {
  constexpr std::int64_t kElements = 1000;
  for (const Isa isa : supported_isas()) {
    for (const Method method : {Method::adamw, Method::adam}) {
      for (const std::int64_t t : {1, 2, 1000, 10'000'000}) {
        std::mt19937 random(7);
        Arrays arrays(kElements, random);
        const Arrays before = arrays;
        const AdamStep step{.method = method,
                            .learning_rate = 3e-3f,
                            .weight_decay = 0.1f,
                            .gradient_scale = 0.37f,
                            .step = t};
        ASSERT_TRUE(adam_update(step, arrays.split(Dtype::bf16, 0, kElements), isa));
        for (std::size_t i = 0; i < kElements; ++i) {
          const double g = to_float(before.gradient_bf16[i]);
          const Moments expected =
              textbook(step, {before.joined(i), before.moment1[i], before.moment2[i]}, g);
          // Terms may cancel: errors are relative to the terms, not to their sum.
          const double g_scale = std::abs(g) + 0.1 * std::abs(before.joined(i));
          const double m_tolerance = 4 * kF32Rounding * (std::abs(before.moment1[i]) + g_scale);
          const double v_tolerance = 8 * kF32Rounding * (before.moment2[i] + g_scale * g_scale);
          EXPECT_NEAR(arrays.moment1[i], expected.m, m_tolerance);
          EXPECT_NEAR(arrays.moment2[i], expected.v, v_tolerance);
          // The change per unit of m, from the exact moments; v's relative error counts half, and
          // v is off by (1 - beta2) g^2 terms only when L2 decay cancels the gradient.
          const double root = std::sqrt(expected.v / (1 - std::pow(double{step.beta2}, t)));
          const double bias1 = 1 - std::pow(double{step.beta1}, t);
          const double per_m = step.learning_rate / bias1 / (root + step.epsilon);
          const double change = per_m * std::abs(expected.m);
          const double tolerance = per_m * m_tolerance + change * v_tolerance / expected.v +
                                   8 * kF32Rounding * change +
                                   2 * kF32Rounding * std::abs(expected.w);
          EXPECT_NEAR(arrays.joined(i), expected.w, tolerance) << name_of(isa) << ' ' << i;
        }
      }
    }
  }
}

TEST(Adam, ClipFactorScalesTheGradient) {
  // A power of two scales exactly: the two runs must agree bit for bit.
  std::mt19937 random(3);
  Arrays clipped(100, random);
  Arrays scaled = clipped;
  for (float& g : scaled.gradient) g *= 0.25f;
  AdamStep step{.learning_rate = 1e-3f, .weight_decay = 0.1f, .gradient_scale = 0.25f};
  ASSERT_TRUE(adam_update(step, clipped.split(Dtype::f32, 0, 100), best_isa()));
  step.gradient_scale = 1;
  ASSERT_TRUE(adam_update(step, scaled.split(Dtype::f32, 0, 100), best_isa()));
  EXPECT_EQ(clipped.moment1, scaled.moment1);
  EXPECT_EQ(clipped.moment2, scaled.moment2);
  EXPECT_EQ(clipped.weight, scaled.weight);
  EXPECT_EQ(clipped.remainder, scaled.remainder);
}

TEST(Adam, DecayWithoutGradient) {
  float w = 1, m = 0, v = 0;
  const float g = 0;
  AdamStep step{.learning_rate = 0x1p-10f, .weight_decay = 0x1p-5f};
  ASSERT_TRUE(adam_update(step, F32State{&w, &m, &v, &g, nullptr, 1}, best_isa()));
  EXPECT_EQ(w, 1 - 0x1p-15f);  // w (1 - lr lambda)
  EXPECT_EQ(m, 0);
  step.method = Method::adam;
  w = 1;
  ASSERT_TRUE(adam_update(step, F32State{&w, &m, &v, &g, nullptr, 1}, best_isa()));
  EXPECT_NEAR(m, 0.1 * 0x1p-5, 4 * kF32Rounding * 0x1p-5);  // the decay is a gradient
}

TEST(Adam, ReportsMastersOutsideTheirDomain) {
  const float last_inside = std::bit_cast<float>(kSplitMasterBoundBits - 1);
  const float first_outside = std::bit_cast<float>(kSplitMasterBoundBits);
  const AdamStep still{.learning_rate = 0};
  for (const Isa isa : supported_isas()) {
    for (std::size_t place = 0; place < 37; ++place) {
      const auto update_with = [&](float master, auto form) {
        std::mt19937 random(5);
        Arrays arrays(37, random);
        arrays.weight[place] = split_master(master).weight;
        arrays.remainder[place] = split_master(master).remainder;
        arrays.master[place] = master;
        return adam_update(still, (arrays.*form)(Dtype::f32, 0, 37), isa);
      };
      for (const float sign : {1.0f, -1.0f}) {
        EXPECT_TRUE(update_with(sign * last_inside, &Arrays::split));
        EXPECT_FALSE(update_with(sign * first_outside, &Arrays::split));
        EXPECT_FALSE(update_with(sign * kInfinity, &Arrays::split));
        EXPECT_TRUE(update_with(sign * first_outside, &Arrays::f32));
        EXPECT_FALSE(update_with(sign * kInfinity, &Arrays::f32));
      }
    }
  }
}

TEST(Adam, ReportsNonFiniteGradientsAndOverflow) {
  const AdamStep step{.learning_rate = 1e-3f};
  for (const Isa isa : supported_isas()) {
    // 3e19 squared is beyond f32: the second moment overflows and would freeze the weight.
    for (const float bad : {kInfinity, -kInfinity, std::nanf(""), 3e20f}) {
      std::mt19937 random(5);
      Arrays arrays(37, random);
      arrays.gradient[20] = bad;
      arrays.gradient_bf16[20] = to_bf16_nearest_even(bad);
      Arrays same = arrays;
      EXPECT_FALSE(adam_update(step, arrays.split(Dtype::f32, 0, 37), isa)) << bad;
      EXPECT_FALSE(adam_update(step, same.f32(Dtype::bf16, 0, 37), isa)) << bad;
    }
  }
}

TEST(AdamDeathTest, RefusesTwoGradientsAndStepZero) {
  float w = 1, m = 0, v = 0, g = 1;
  bf16 g16{};
  const AdamStep step{.learning_rate = 1e-3f};
  EXPECT_DEATH((void)adam_update(step, F32State{&w, &m, &v, &g, &g16, 1}, Isa::scalar),
               "one gradient");
  const AdamStep zero{.step = 0};
  EXPECT_DEATH((void)adam_update(zero, F32State{&w, &m, &v, &g, nullptr, 1}, Isa::scalar),
               "starts at 1");
}

}  // namespace
}  // namespace strata::optim
