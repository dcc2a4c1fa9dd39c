// Compute sees every unit's weights, updated exactly once where an update is pending, from every
// tier and with any prefetch; a broken drive is an error and not a hang.
#include "offload/weight_streamer.h"

#include <cstring>
#include <vector>

#include "kernels/base/error.h"
#include "tests/offload/small_machine.h"

namespace strata::offload {
namespace {

using testing::kSlow;
using testing::kUnits;
using testing::placed;
using testing::small_input;
using testing::SmallMachine;

struct Case {
  Tier tier;
  int prefetch;
  Durability durability = Durability::none;
};

PlanInput input_of(const Case& test) {
  PlanInput input = placed(test.tier, Tier::device);
  input.prefetch = test.prefetch;
  input.durability = test.durability;
  return input;
}

// Adds one to every weight, as 16-bit integers.
class AddOne final : public PendingUpdates {
 public:
  void apply_on_device(int /*unit*/, Stream& /*stream*/) override { FAIL(); }
  void begin() { pending_.assign(kUnits, true); }
  bool pending(int unit) const override { return pending_[static_cast<std::size_t>(unit)]; }
  void apply(int unit, AlignedSpan weights) override {
    EXPECT_TRUE(pending(unit));
    pending_[static_cast<std::size_t>(unit)] = false;
    auto* const values = weights.as<std::uint16_t>();
    for (std::int64_t i = 0; i < weights.bytes() / 2; ++i) ++values[i];
  }

 private:
  std::vector<bool> pending_ = std::vector<bool>(kUnits, false);
};

class Weights {
 public:
  explicit Weights(SmallMachine& machine)
      : machine_(machine),
        staging_(machine.device.allocate_pinned("test", bytes_max())),
        seen_(
            machine.device.allocate_pinned("seen", bytes_max() * std::ssize(small_input().uses))) {
    for (int unit = 0; unit < kUnits; ++unit) fill(unit, initial(unit));
  }

  static std::uint16_t initial(int unit) { return static_cast<std::uint16_t>(100 * (unit + 1)); }

  // The walk of a training pass. Each unit must hold its initial value plus `updates`.
  void walk(WeightStreamer& streamer, PendingUpdates* pending, int updates) {
    walk(streamer, machine_.plan.uses, pending, updates);
  }
  void walk(WeightStreamer& streamer, const std::vector<ScheduledUse>& uses,
            PendingUpdates* pending, int updates) {
    streamer.begin(uses, pending);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const Lease lease = streamer.acquire(uses[i].unit);
      machine_.compute->copy(seen_of(i), lease.data(), bytes(uses[i].unit));
    }
    streamer.end();
    machine_.compute->synchronize();
    for (std::size_t i = 0; i < uses.size(); ++i) {
      EXPECT_TRUE(holds(seen_of(i), uses[i].unit, updates)) << "use " << i;
    }
  }

  // On its tier.
  void expect_kept(int updates) {
    for (int unit = 0; unit < kUnits; ++unit) {
      read(unit);
      EXPECT_TRUE(holds(staging_.data(), unit, updates)) << "unit " << unit;
    }
  }

 private:
  std::int64_t bytes(int unit) const {
    return machine_.plan.units[static_cast<std::size_t>(unit)].shard_elements * 2;
  }
  std::int64_t bytes_max() const { return machine_.plan.unit_elements_max * 2; }
  std::byte* seen_of(std::size_t use) const {
    return seen_.data() + static_cast<std::int64_t>(use) * bytes_max();
  }
  bool holds(const std::byte* data, int unit, int updates) const {
    const auto* const values = reinterpret_cast<const std::uint16_t*>(data);
    return std::count(values, values + bytes(unit) / 2, initial(unit) + updates) == bytes(unit) / 2;
  }
  void fill(int unit, std::uint16_t value) {
    std::fill_n(staging_.as<std::uint16_t>(), bytes(unit) / 2, value);
    const AlignedSpan source = staging_.span(0, bytes(unit));
    switch (machine_.store.tier(unit, StateKind::weights)) {
      case Tier::host:
        std::memcpy(machine_.store.host(unit, StateKind::weights).data(), source.data(),
                    static_cast<std::size_t>(source.bytes()));
        return;
      case Tier::device:
        machine_.compute->copy(machine_.store.device(unit, StateKind::weights), source.data(),
                               source.bytes());
        machine_.compute->synchronize();
        return;
      case Tier::nvme: {
        io::IoGroup group;
        group.report_to(machine_.store.lasting_writes());
        machine_.store.write(unit, StateKind::weights, 0, source, group);
        group.wait();
        return;
      }
    }
  }
  void read(int unit) {
    const AlignedSpan destination = staging_.span(0, bytes(unit));
    switch (machine_.store.tier(unit, StateKind::weights)) {
      case Tier::host:
        std::memcpy(destination.data(), machine_.store.host(unit, StateKind::weights).data(),
                    static_cast<std::size_t>(destination.bytes()));
        return;
      case Tier::device:
        machine_.compute->copy(destination.data(), machine_.store.device(unit, StateKind::weights),
                               destination.bytes());
        machine_.compute->synchronize();
        return;
      case Tier::nvme: {
        VerifiedReads reads;
        machine_.store.read(unit, StateKind::weights, 0, destination, reads);
        reads.wait();
        return;
      }
    }
  }

  SmallMachine& machine_;
  PinnedBuffer staging_;
  PinnedBuffer seen_;
};

class WeightStreamerTest : public ::testing::TestWithParam<Case> {};
class WeightStreamerOnNvme : public WeightStreamerTest {};

TEST_P(WeightStreamerTest, ComputeSeesEveryUnit) {
  SmallMachine machine(input_of(GetParam()), kSlow);
  Weights weights(machine);
  WeightStreamer streamer(machine.store, machine.device, *machine.compute, *machine.comm,
                          machine.failure, nullptr);
  for (int pass = 0; pass < 3; ++pass) weights.walk(streamer, nullptr, 0);
  weights.expect_kept(0);
}

TEST_P(WeightStreamerTest, PendingUpdatesAreAppliedBeforeAnyoneLooks) {
  SmallMachine machine(input_of(GetParam()), kSlow);
  Weights weights(machine);
  WeightStreamer streamer(machine.store, machine.device, *machine.compute, *machine.comm,
                          machine.failure, nullptr);
  AddOne updates;
  for (int step = 1; step <= 4; ++step) {
    updates.begin();
    machine.store.protect_live_slots();
    weights.walk(streamer, &updates, step);
    weights.walk(streamer, &updates, step);  // nothing is pending any more
    const bool flipped = machine.plan.durability == Durability::commits && step % 2 == 1;
    EXPECT_EQ(machine.store.live_slot(0), flipped ? 1 : 0);
    EXPECT_FALSE(machine.store.is_protected(0));
  }
  streamer.flush();
  weights.expect_kept(4);
}

// Two uses of a unit so close that both could be read at once, as no schedule of slots has them:
// the second must not be read before the first has had its update, or it would see the weights of
// before and, in the slot that a commit rests on, with checksums that are right.
TEST(WeightStreamer, NoReadOvertakesAnUpdate) {
  for (const Durability durability : {Durability::none, Durability::commits}) {
    SmallMachine machine(input_of({Tier::nvme, 2, durability}), kSlow);
    Weights weights(machine);
    WeightStreamer streamer(machine.store, machine.device, *machine.compute, *machine.comm,
                            machine.failure, nullptr);
    const std::vector<ScheduledUse> uses = {{1, 0, false}, {1, 1, false}, {1, 2, false}};
    AddOne updates;
    updates.begin();
    machine.store.protect_live_slots();
    weights.walk(streamer, uses, &updates, 1);
  }
}

TEST_P(WeightStreamerOnNvme, ABrokenDriveEndsTheWalk) {
  for (const std::int64_t after : {0, 2, 4}) {  // requests of the walk, after those that fill it
    SmallMachine machine(input_of(GetParam()),
                         {.delay_us_max = 100, .fail_request = kUnits + after});
    Weights weights(machine);
    WeightStreamer streamer(machine.store, machine.device, *machine.compute, *machine.comm,
                            machine.failure, nullptr);
    AddOne updates;
    updates.begin();
    EXPECT_THROW(
        {
          weights.walk(streamer, &updates, 1);
          streamer.flush();
        },
        IoError);
    machine.compute.reset();  // before the events that it still records
  }
}

std::string name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(name_of(info.param.tier)) + "_prefetch_" +
         std::to_string(info.param.prefetch) +
         (info.param.durability == Durability::commits ? "_two_slots" : "");
}

INSTANTIATE_TEST_SUITE_P(Tiers, WeightStreamerTest,
                         ::testing::Values(Case{Tier::device, 1}, Case{Tier::host, 0},
                                           Case{Tier::host, 2}, Case{Tier::nvme, 0},
                                           Case{Tier::nvme, 1}, Case{Tier::nvme, 4},
                                           Case{Tier::host, 2, Durability::commits},
                                           Case{Tier::nvme, 0, Durability::commits},
                                           Case{Tier::nvme, 4, Durability::commits}),
                         name);
INSTANTIATE_TEST_SUITE_P(Tiers, WeightStreamerOnNvme,
                         ::testing::Values(Case{Tier::nvme, 0}, Case{Tier::nvme, 1},
                                           Case{Tier::nvme, 4}),
                         name);

}  // namespace
}  // namespace strata::offload
