// Gradients reach the consumer whole, in the order in which they were closed, with zeros behind
// them.
#include "offload/gradient_sink.h"

#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "tests/offload/small_machine.h"

namespace strata::offload {
namespace {

using testing::kUnits;
using testing::placed;
using testing::SmallMachine;

// Keeps what lands. Slower than backward, so that slots run out.
class Keeper final : public GradientConsumer {
 public:
  void take_on_device(const Contribution&, Stream&, float*) override { FAIL(); }
  Keeper(const Plan& plan, Device& device)
      : plan_(plan), landing_(device.allocate_pinned("landing", plan.unit_elements_max * 4)) {}

  float* landing(const Contribution&) override {
    std::fill_n(landing_.as<float>(), plan_.unit_elements_max, NAN);
    return landing_.as<float>();
  }
  void landed(const Contribution& contribution) override {
    if (fail_at_ == static_cast<int>(contributions_.size())) throw_error<IoError>("no room");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const UnitPlan& unit = plan_.units[static_cast<std::size_t>(contribution.unit)];
    contributions_.push_back(contribution);
    values_.emplace_back(landing_.as<float>(), landing_.as<float>() + unit.shard_elements);
  }

  const Plan& plan_;
  PinnedBuffer landing_;
  std::vector<Contribution> contributions_;
  std::vector<std::vector<float>> values_;
  int fail_at_ = -1;
};

class GradientSinkTest : public ::testing::Test {
 protected:
  // Before the events that it still records.
  ~GradientSinkTest() override { machine_.compute.reset(); }

  // Backward of one unit: every element becomes `value`.
  void contribute(const Contribution& contribution, float value) {
    const std::int64_t elements = elements_of(contribution.unit);
    float* const slot = sink_.open(contribution.unit);
    const auto index = next_source_++;
    float* const source = sources_.as<float>() + index * machine_.plan.unit_elements_max;
    std::fill_n(source, elements, value);
    machine_.compute->copy(slot, source, elements * 4);
    sink_.close(contribution);
  }
  std::int64_t elements_of(int unit) const {
    return machine_.plan.units[static_cast<std::size_t>(unit)].elements;
  }

  static constexpr int kContributions = 12;
  SmallMachine machine_{placed(Tier::host, Tier::device), {}};
  PinnedBuffer sources_ = machine_.device.allocate_pinned(
      "sources", kContributions* machine_.plan.unit_elements_max * 4);
  std::int64_t next_source_ = 0;
  Keeper keeper_{machine_.plan, machine_.device};
  GradientSink sink_{machine_.plan, machine_.device,         *machine_.compute, *machine_.comm,
                     keeper_,       machine_.store.ledger(), machine_.failure,  nullptr};
};

TEST_F(GradientSinkTest, ContributionsArriveInOrderAndPadded) {
  std::vector<Contribution> closed;
  for (int i = 0; i < kContributions; ++i) {
    closed.push_back({i % kUnits, i < kUnits, i + kUnits >= kContributions});
    contribute(closed.back(), static_cast<float>(i + 1));
  }
  sink_.drain();
  ASSERT_EQ(keeper_.values_.size(), closed.size());
  for (std::size_t i = 0; i < closed.size(); ++i) {
    EXPECT_EQ(keeper_.contributions_[i].unit, closed[i].unit);
    EXPECT_EQ(keeper_.contributions_[i].first, closed[i].first);
    EXPECT_EQ(keeper_.contributions_[i].last, closed[i].last);
    std::vector<float> expected(keeper_.values_[i].size(), 0.0f);
    std::fill_n(expected.begin(), elements_of(closed[i].unit), static_cast<float>(i + 1));
    EXPECT_EQ(keeper_.values_[i], expected) << "contribution " << i;
  }
}

// More of them than there are slots: none waits for anybody.
TEST_F(GradientSinkTest, GradientsOfAFrozenUnitGoNowhere) {
  constexpr int kFrozen = 1;
  machine_.plan.units[kFrozen].frozen = true;
  for (int i = 0; i < 4; ++i) contribute({kFrozen, i == 0, i == 3}, 7.0f);
  contribute({2, true, true}, 1.0f);
  contribute({kFrozen, true, true}, 7.0f);
  contribute({3, true, true}, 2.0f);
  sink_.drain();
  ASSERT_EQ(keeper_.contributions_.size(), 2u);
  EXPECT_EQ(keeper_.contributions_[0].unit, 2);
  EXPECT_EQ(keeper_.contributions_[1].unit, 3);
  EXPECT_EQ(keeper_.values_[0].front(), 1.0f);
  EXPECT_EQ(keeper_.values_[1].front(), 2.0f);
}

TEST_F(GradientSinkTest, AFailingConsumerEndsBackward) {
  keeper_.fail_at_ = 2;
  EXPECT_THROW(
      {
        for (int i = 0; i < kContributions; ++i) contribute({i % kUnits, true, true}, 1.0f);
        sink_.drain();
      },
      IoError);
}

}  // namespace
}  // namespace strata::offload
