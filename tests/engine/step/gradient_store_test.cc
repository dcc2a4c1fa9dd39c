// The norm of the gradients, and what becomes of them: against sums in higher precision, the same
// bits whatever the tier and the number of threads.
#include "engine/step/gradient_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/offload/small_machine.h"

namespace strata::engine {
namespace {

using offload::Contribution;
using offload::StateKind;
using offload::Tier;
using offload::testing::kUnits;
using offload::testing::placed;
using offload::testing::SmallMachine;

struct Setup {
  Tier tier = Tier::host;
  Dtype gradients = Dtype::f32;
  int threads = 2;
  GradientStore::TrainedRanges trained = {};  // empty: everything
};

// Unit 0 is tied: it contributes twice, the others once.
constexpr int kTied = 0;

// Elements of a contribution: values of every size from 1e-6 to 1e3, zero in the padding.
std::vector<float> values_of(const offload::UnitPlan& unit, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-6, 3);
  std::vector<float> values(static_cast<std::size_t>(unit.shard_elements), 0.0f);
  for (std::int64_t i = 0; i < unit.elements; ++i) {
    const float value = std::pow(10.0f, exponent(random));
    values[static_cast<std::size_t>(i)] = random() % 2 == 0 ? value : -value;
  }
  return values;
}

class Gradients {
 public:
  explicit Gradients(const Setup& setup)
      : machine_(input(setup), {}),
        workers_(setup.threads),
        store_(machine_.store, machine_.device, workers_, trained(setup, machine_.plan),
               Isa::scalar, nullptr) {}

  // What a pass of the model would hand in. `spoil`: an element of a unit that is not finite.
  GradientStore::Norm step(std::optional<std::pair<int, std::int64_t>> spoil = {}) {
    store_.begin_step();
    for (int unit = 0; unit < kUnits; ++unit) {
      std::vector<float> values = values_of(plan_unit(unit), seed(unit, 0));
      if (spoil && spoil->first == unit) {
        values[static_cast<std::size_t>(spoil->second)] = std::numeric_limits<float>::infinity();
      }
      land({unit, true, unit != kTied}, values);
    }
    land({kTied, false, true}, values_of(plan_unit(kTied), seed(kTied, 1)));
    return store_.finish();
  }

  // The final gradient of a unit by the definition: sums in f32, then rounded once.
  std::vector<double> final_gradient(int unit) const {
    std::vector<double> result;
    const std::vector<float> first = values_of(plan_unit(unit), seed(unit, 0));
    const std::vector<float> second = values_of(plan_unit(unit), seed(unit, 1));
    for (std::size_t i = 0; i < first.size(); ++i) {
      const float sum = unit == kTied ? first[i] + second[i] : first[i];
      result.push_back(machine_.plan.dtypes.gradients == Dtype::bf16 ? nearest_bf16(sum) : sum);
    }
    return result;
  }

 private:
  static std::uint32_t seed(int unit, int contribution) {
    return static_cast<std::uint32_t>(10 * unit + contribution + 1);
  }
  static offload::PlanInput input(const Setup& setup) {
    offload::PlanInput input = placed(setup.tier, Tier::device);
    input.dtypes.gradients = setup.gradients;
    return input;
  }
  static GradientStore::TrainedRanges trained(const Setup& setup, const offload::Plan& plan) {
    if (!setup.trained.empty()) return setup.trained;
    GradientStore::TrainedRanges all;
    for (const offload::UnitPlan& unit : plan.units) all.push_back({{0, unit.shard_elements}});
    return all;
  }
  // To nearest, ties to even, by the distance to the two neighbours.
  static double nearest_bf16(float x) {
    int exponent;
    const double fraction = std::frexp(double{x}, &exponent);  // [0.5, 1): 8 bits of it are kept
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }
  const offload::UnitPlan& plan_unit(int unit) const {
    return machine_.plan.units[static_cast<std::size_t>(unit)];
  }
  void land(const Contribution& contribution, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), store_.landing(contribution));
    store_.landed(contribution);
  }

  SmallMachine machine_;
  WorkerSet workers_;
  GradientStore store_;
};

long double square_sum(const std::vector<double>& values, std::int64_t first, std::int64_t last) {
  long double sum = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const long double x = values[static_cast<std::size_t>(i)];
    sum += x * x;
  }
  return sum;
}

// Squares are exact in f64 and positive; 5e4 of them are added in f64 in some order: a relative
// error of at most 5e4 x 2^-53 = 6e-12, in a tree of some hundred additions about a thousandth of
// that.
constexpr double kTolerance = 6e-12;

TEST(GradientNorm, IsThatOfFinalGradientsEachOnce) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Gradients gradients({.gradients = dtype});
    long double expected = 0;
    for (int unit = 0; unit < kUnits; ++unit) {
      const std::vector<double> values = gradients.final_gradient(unit);
      expected += square_sum(values, 0, std::ssize(values));
    }
    const GradientStore::Norm norm = gradients.step();
    EXPECT_TRUE(norm.finite);
    EXPECT_NEAR(norm.square_sum, static_cast<double>(expected),
                kTolerance * static_cast<double>(expected));
  }
}

TEST(GradientNorm, HasTheSameBitsOnEveryTierAndNumberOfThreads) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Gradients reference({.gradients = dtype, .threads = 1});
    const double expected = reference.step().square_sum;
    for (const Tier tier : {Tier::host, Tier::nvme, Tier::device}) {
      for (const int threads : {1, 2, 5}) {
        Gradients gradients({tier, dtype, threads});
        EXPECT_EQ(gradients.step().square_sum, expected) << name_of(tier) << ' ' << threads;
        EXPECT_EQ(gradients.step().square_sum, expected) << "in the step after";
      }
    }
  }
}

// Of frozen elements nothing counts, not even that they are not finite.
TEST(GradientNorm, LeavesOutWhatIsFrozen) {
  GradientStore::TrainedRanges trained(kUnits);
  trained[0] = {{100, 5000}, {8192, 8193}, {9000, 20480}};
  trained[1] = {{0, 12288}};
  trained[3] = {{64, 128}};  // 2 and 4: nothing
  Gradients gradients({.trained = trained});
  long double expected = 0;
  for (int unit = 0; unit < kUnits; ++unit) {
    for (const ElementRange& range : trained[static_cast<std::size_t>(unit)]) {
      expected += square_sum(gradients.final_gradient(unit), range.first, range.last);
    }
  }
  for (const auto& spoil : std::vector<std::pair<int, std::int64_t>>{{0, 99}, {0, 8500}, {2, 7}}) {
    const GradientStore::Norm norm = gradients.step(spoil);
    EXPECT_TRUE(norm.finite);
    EXPECT_NEAR(norm.square_sum, static_cast<double>(expected),
                kTolerance * static_cast<double>(expected));
  }
  EXPECT_FALSE(gradients.step(std::pair{0, std::int64_t{8192}}).finite);
}

TEST(GradientNorm, SeesAnElementThatIsNotFinite) {
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    Gradients gradients({.tier = tier});
    EXPECT_TRUE(gradients.step().finite);
    for (const auto& spoil :
         std::vector<std::pair<int, std::int64_t>>{{0, 0}, {1, 8999}, {4, 50}}) {
      EXPECT_FALSE(gradients.step(spoil).finite) << spoil.first;
    }
    EXPECT_TRUE(gradients.step().finite) << "the step after";
  }
}

}  // namespace
}  // namespace strata::engine
