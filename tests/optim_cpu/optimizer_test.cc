// The optimizers' numbers: against PyTorch, and against their papers' formulas in double precision.
#include "optim_cpu/optimizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/optim_cpu/optim_testing.h"
#include "tests/optim_cpu/optimizer_goldens.h"

namespace strata::optim {
namespace {

constexpr double kF32Rounding = 0x1p-24;  // relative error of one f32 operation
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Element {
  double w, m, v;
};

// Kingma & Ba 2015, algorithm 1, with L2 or decoupled decay (Loshchilov & Hutter 2019, algorithm 2
// with the decay times the learning rate, as PyTorch has it); Chen et al. 2023, algorithm 2.
Element textbook(const StepSettings& step, const Group& group, Element s, double gradient) {
  const double beta1 = step.beta1, beta2 = step.beta2, lr = group.learning_rate;
  const double decay = group.weight_decay, t = static_cast<double>(step.step);
  double g = gradient * step.gradient_scale;
  if (step.method == Method::lion) {
    const double direction = beta1 * s.m + (1 - beta1) * g;
    const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
    return {s.w - lr * (sign + decay * s.w), beta2 * s.m + (1 - beta2) * g, 0};
  }
  if (step.method == Method::adam) g += decay * s.w;
  const double m = beta1 * s.m + (1 - beta1) * g;
  const double v = beta2 * s.v + (1 - beta2) * g * g;
  const double m_hat = m / (1 - std::pow(beta1, t));
  const double v_hat = v / (1 - std::pow(beta2, t));
  const double w = step.method == Method::adamw ? s.w * (1 - lr * decay) : s.w;
  return {w - lr * m_hat / (std::sqrt(v_hat) + step.epsilon), m, v};
}

// The inputs of scripts/make_optimizer_goldens.py.
std::vector<float> golden_weights(const Form& form) {
  std::mt19937 random(1);
  Arrays arrays(kGoldenElements, random);
  for (int i = 0; i < kGoldenElements; ++i) {
    arrays.master[i] = static_cast<float>(2 * i - 7) / 16;
    arrays.weight[i] = split_master(arrays.master[i]).weight;
    arrays.remainder[i] = split_master(arrays.master[i]).remainder;
  }
  arrays.moment1 = arrays.moment2 = MomentArrays(std::vector<float>(kGoldenElements));
  StepSettings settings{.method = form.method, .beta1 = 0.875f, .beta2 = 0.9375f};
  for (settings.step = 1; settings.step <= kGoldenSteps; ++settings.step) {
    std::vector<float> gradient(kGoldenElements);
    for (int i = 0; i < kGoldenElements; ++i) {
      gradient[i] = static_cast<float>((7 * i + 5 * settings.step) % 11 - 5) / 16;
    }
    arrays.set_gradient(gradient);
    EXPECT_TRUE(
        update(settings, {1.0f / 128, 0.125f}, arrays.state(form, 0, kGoldenElements), best_isa()));
  }
  std::vector<float> weights;
  for (std::size_t i = 0; i < kGoldenElements; ++i) {
    weights.push_back(arrays.master_of(form.masters, i));
  }
  return weights;
}

TEST(Optimizer, MatchesPyTorchAfterAHundredSteps) {
  // A step rounds a weight below 1 once, to 2^-25 at most, and makes a change that is off by:
  //   m: two roundings a step, summed over 1 / (1 - beta1) = 8 of them: 16 roundings of the largest
  //      gradient, which is at most 2.5 roots of v;
  //   v: three roundings a step, of 16 that count, halved by the root: 24 roundings, of a change of
  //      at most 2 lr;
  //   ten operations and constants of the change itself, 20.
  // Together lr * 108 roundings < 2^-24. Adam's decay feeds an error of the weight back through the
  // gradient, 1 + lr * decay / root(v) < 1.005 times a step: less than twice in a hundred steps.
  constexpr double kTolerance = 2 * kGoldenSteps * (0x1p-25 + 0x1p-24);
  const std::pair<Method, const double*> goldens[] = {
      {Method::adamw, kAdamWWeights}, {Method::adam, kAdamWeights}, {Method::lion, kLionWeights}};
  for (const auto& [method, golden] : goldens) {
    const Form form{.method = method, .masters = Masters::f32};
    const std::vector<float> weights = golden_weights(form);
    for (int i = 0; i < kGoldenElements; ++i) {
      EXPECT_NEAR(weights[i], golden[i], kTolerance) << form.text() << ' ' << i;
    }
    EXPECT_EQ(golden_weights({.method = method, .masters = Masters::split}), weights);
    // The gradients, sixteenths below 1, are exact in bf16.
    EXPECT_EQ(golden_weights({.method = method, .gradient = Dtype::bf16}), weights);
  }
}

// Of one element: old state, gradient and new state.
void expect_textbook(const StepSettings& step, const Group& group, const Element& before, double g,
                     const Element& after, const std::string& where) {
  const Element expected = textbook(step, group, before, g);
  // Terms may cancel: errors are relative to the terms, not to their sum.
  const double coupled = step.method == Method::adam ? group.weight_decay : 0.0;
  const double g_scale = std::abs(g) + coupled * std::abs(before.w);
  const double m_tolerance = 4 * kF32Rounding * (std::abs(before.m) + g_scale);
  EXPECT_NEAR(after.m, expected.m, m_tolerance) << where;
  if (step.method == Method::lion) {
    // The change is lr or nothing, unless rounding turned the sign of a direction near zero.
    const double direction = std::abs(step.beta1 * before.m +
                                      (1 - double{step.beta1}) * g * double{step.gradient_scale});
    if (direction < m_tolerance) return;
    EXPECT_NEAR(after.w, expected.w, 4 * kF32Rounding * (std::abs(before.w) + 1e-2)) << where;
    return;
  }
  const double v_tolerance = 8 * kF32Rounding * (before.v + g_scale * g_scale);
  EXPECT_NEAR(after.v, expected.v, v_tolerance) << where;
  // The change per unit of m, from the exact moments; v's relative error counts half, and v is off
  // by (1 - beta2) g^2 terms only when L2 decay cancels the gradient.
  const double t = static_cast<double>(step.step);
  const double root = std::sqrt(expected.v / (1 - std::pow(double{step.beta2}, t)));
  const double bias1 = 1 - std::pow(double{step.beta1}, t);
  const double per_m = group.learning_rate / bias1 / (root + step.epsilon);
  const double change = per_m * std::abs(expected.m);
  const double tolerance = per_m * m_tolerance + change * v_tolerance / expected.v +
                           8 * kF32Rounding * change + 2 * kF32Rounding * std::abs(expected.w);
  EXPECT_NEAR(after.w, expected.w, tolerance) << where;
}

TEST(Optimizer, MatchesTheTextbookFormulas) {
  constexpr std::int64_t kElements = 1000;
  const Group group{3e-3f, 0.1f};
  for (const Isa isa : supported_isas()) {
    for (const Method method : {Method::adamw, Method::adam, Method::lion}) {
      for (const std::int64_t t : {1, 2, 1000, 10'000'000}) {
        std::mt19937 random(7);
        Arrays arrays(kElements, random);
        const Arrays before = arrays;
        const StepSettings step{.method = method, .gradient_scale = 0.37f, .step = t};
        const Form form{.method = method, .gradient = Dtype::bf16};
        ASSERT_TRUE(update(step, group, arrays.state(form, 0, kElements), isa));
        const auto element = [](const Arrays& a, std::size_t i) {
          return Element{a.master_of(Masters::split, i), a.moment1.f32[i], a.moment2.f32[i]};
        };
        for (std::size_t i = 0; i < kElements; ++i) {
          expect_textbook(step, group, element(before, i), to_float(before.gradient_bf16[i]),
                          element(arrays, i), fmt::format("{} {}", name_of(isa), i));
        }
      }
    }
  }
}

TEST(Optimizer, ClipFactorScalesTheGradient) {
  // A power of two scales exactly: the two runs must agree bit for bit.
  for_each_form([](const Form& form) {
    if (form.gradient == Dtype::bf16) return;
    std::mt19937 random(3);
    Arrays clipped(256, random);
    Arrays scaled = clipped;
    for (float& g : scaled.gradient) g *= 0.25f;
    StepSettings settings{.method = form.method, .gradient_scale = 0.25f};
    ASSERT_TRUE(update(settings, {1e-3f, 0.1f}, clipped.state(form, 0, 256), best_isa()));
    settings.gradient_scale = 1;
    ASSERT_TRUE(update(settings, {1e-3f, 0.1f}, scaled.state(form, 0, 256), best_isa()));
    scaled.gradient = clipped.gradient;
    EXPECT_EQ(clipped, scaled) << form.text();
  });
}

TEST(Optimizer, DecayWithoutGradient) {
  const auto after_step = [](Method method, float* m) {
    float w = 1, v = 0;
    const float g = 0;
    State state;
    state.weight = &w;
    state.moment1.values = m;
    state.moment2.values = &v;
    state.gradient = &g;
    state.elements = 1;
    EXPECT_TRUE(update({.method = method}, {0x1p-10f, 0x1p-5f}, state, best_isa()));
    return w;
  };
  for (const Method decoupled : {Method::adamw, Method::lion}) {
    float m = 0;
    EXPECT_EQ(after_step(decoupled, &m), 1 - 0x1p-15f);  // w (1 - lr lambda); sign(0) is 0
    EXPECT_EQ(m, 0);
  }
  float m = 0;
  after_step(Method::adam, &m);
  EXPECT_NEAR(m, 0.1 * 0x1p-5, 4 * kF32Rounding * 0x1p-5);  // the decay is a gradient
}

TEST(Optimizer, LionStepsByTheSignAlone) {
  float w[] = {1, 1, 1, 1};
  float m[] = {0.5f, 0.5f, -1e-30f, -0.0f};
  const float g[] = {-4.0f, -5.0f, 0, -0.0f};  // 0.9 * 0.5 - 0.1 * 4 > 0, with 5 it is below
  State state;
  state.weight = w;
  state.moment1.values = m;
  state.gradient = g;
  state.elements = 4;
  for (const Isa isa : supported_isas()) {
    std::fill(std::begin(w), std::end(w), 1.0f);
    const std::vector<float> before(std::begin(m), std::end(m));
    ASSERT_TRUE(update({.method = Method::lion}, {0.25f, 0}, state, isa));
    EXPECT_EQ(std::vector<float>(w, w + 4), (std::vector<float>{0.75f, 1.25f, 1.25f, 1}));
    std::copy(before.begin(), before.end(), m);
  }
}

TEST(OptimizerSegments, EachHasItsOwnRateAndDecay) {
  for_each_form([](const Form& form) {
    std::mt19937 random(23);
    constexpr std::int64_t kElements = 1024;
    const Arrays start(kElements, random);
    const Segment segments[] = {{300, 1e-3f, 0.1f, false},
                                {300, 7.0f, 7.0f, false},  // empty
                                {301, 2e-3f, 0, false},
                                {1024, 5e-4f, 0.2f, false}};
    const StepSettings settings{.method = form.method, .step = 9, .seed = 1};
    Arrays actual = start;
    ASSERT_TRUE(update(settings, segments, actual.state(form, 0, kElements), best_isa()));
    std::int64_t first = 0;
    for (const Segment& segment : segments) {
      Arrays alone = start;  // with one rate for all
      ASSERT_TRUE(update(settings, {segment.learning_rate, segment.weight_decay},
                         alone.state(form, 0, kElements), best_isa()));
      for (std::int64_t i = first; i < segment.last; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(actual.master_of(form.masters, at), alone.master_of(form.masters, at))
            << form.text() << ' ' << i;
      }
      first = segment.last;
    }
  });
}

TEST(OptimizerSegments, FrozenOnesAreNotTouched) {
  for_each_form([](const Form& form) {
    std::mt19937 random(29);
    constexpr std::int64_t kElements = 1024;
    Arrays start(kElements, random);
    for (std::size_t i = 250; i < 700; ++i) start.gradient[i] = std::nanf("");  // not even read
    start.set_gradient(start.gradient);
    const Segment segments[] = {
        {250, 1e-3f, 0.1f, false}, {700, 1e-3f, 0.1f, true}, {1024, 1e-3f, 0.1f, false}};
    const StepSettings settings{.method = form.method};
    Arrays actual = start;
    ASSERT_TRUE(update(settings, segments, actual.state(form, 0, kElements), best_isa()));
    for (std::size_t i = 250; i < 700; ++i) {
      ASSERT_EQ(actual.master_of(form.masters, i), start.master_of(form.masters, i));
      if (form.moments == MomentFormat::f32) {
        ASSERT_EQ(actual.moment1.f32[i], start.moment1.f32[i]);
      } else if (form.moments == MomentFormat::bf16) {
        ASSERT_EQ(actual.moment1.bf16[i], start.moment1.bf16[i]);
      }
    }
    // In int8, blocks of which nothing is updated: that of elements 256 to 511.
    for (std::size_t i = 256; i < 512; ++i) {
      ASSERT_EQ(actual.moment1.codes[i], start.moment1.codes[i]);
    }
    EXPECT_EQ(actual.moment1.scales[1], start.moment1.scales[1]);
    EXPECT_NE(actual.master_of(form.masters, 249), start.master_of(form.masters, 249));
    EXPECT_NE(actual.master_of(form.masters, 700), start.master_of(form.masters, 700));
  });
}

TEST(OptimizerDomain, ReportsMastersOutside) {
  const float last_inside = std::bit_cast<float>(kSplitMasterBoundBits - 1);
  const float first_outside = std::bit_cast<float>(kSplitMasterBoundBits);
  for (const Isa isa : supported_isas()) {
    for (std::size_t place = 0; place < 37; ++place) {
      const auto stays_inside = [&](Masters masters, float master) {
        std::mt19937 random(5);
        Arrays arrays(37, random);
        arrays.weight[place] = split_master(master).weight;
        arrays.remainder[place] = split_master(master).remainder;
        arrays.master[place] = master;
        return update({}, {0, 0}, arrays.state({.masters = masters}, 0, 37), isa);
      };
      for (const float sign : {1.0f, -1.0f}) {
        EXPECT_TRUE(stays_inside(Masters::split, sign * last_inside));
        EXPECT_FALSE(stays_inside(Masters::split, sign * first_outside));
        EXPECT_FALSE(stays_inside(Masters::split, sign * kInfinity));
        EXPECT_TRUE(stays_inside(Masters::f32, sign * first_outside));
        EXPECT_FALSE(stays_inside(Masters::f32, sign * kInfinity));
      }
    }
  }
}

TEST(OptimizerDomain, ReportsNonFiniteGradientsAndOverflow) {
  for_each_form([](const Form& form) {
    for (const Isa isa : supported_isas()) {
      // 3e20 squared is beyond f32: the second moment overflows and would freeze the weight.
      for (const float bad : {kInfinity, -kInfinity, std::nanf(""), 3e20f}) {
        if (std::isfinite(bad) && form.method == Method::lion) continue;
        std::mt19937 random(5);
        Arrays arrays(37, random);
        arrays.gradient[20] = bad;
        arrays.set_gradient(arrays.gradient);
        EXPECT_FALSE(update({.method = form.method}, {1e-3f, 0}, arrays.state(form, 0, 37), isa))
            << form.text() << ' ' << name_of(isa) << ' ' << bad;
      }
    }
  });
}

TEST(OptimizerDeathTest, RefusesMisuse) {
  std::mt19937 random(5);
  Arrays arrays(300, random);
  const State state = arrays.state({}, 0, 300);
  EXPECT_DEATH((void)update({.step = 0}, {1e-3f, 0}, state, Isa::scalar), "starts at 1");
  const Segment part{299, 1e-3f, 0, false};
  EXPECT_DEATH((void)update({}, std::span(&part, 1), state, Isa::scalar), "end with the state");
  State within_block = arrays.state({.moments = MomentFormat::int8}, 0, 256);
  within_block.first_element = 100;
  EXPECT_DEATH((void)update({}, {1e-3f, 0}, within_block, Isa::scalar), "within a block");
}

}  // namespace
}  // namespace strata::optim
