// Records keep their contents on every tier, and a broken drive is an error and not a hang. Run
// with slow storage, which completes requests late and out of order.
#include "offload/activation_store.h"

#include <cstring>
#include <vector>

#include "kernels/base/error.h"
#include "tests/offload/small_machine.h"

namespace strata::offload {
namespace {

using testing::kSlow;
using testing::placed;
using testing::SmallMachine;

struct Case {
  Tier tier;
  int prefetch;
};

// Half of the records are small, and have slots of their own size.
constexpr int kRecords = 12;

PlanInput input_of(const Case& test) {
  PlanInput input = placed(Tier::host, test.tier);
  input.prefetch = test.prefetch;
  testing::add_record_walk(kRecords, input);
  input.record_bytes.clear();
  for (int record = 0; record < kRecords; ++record) {
    input.record_bytes.push_back(record % 2 == 0 ? 1000 : 20'000 + record);
  }
  return input;
}

// Does a walk as compute does: what is written is a pattern of the record and its version, and what
// is read is copied out to be compared.
class Walker {
 public:
  Walker(const PlanInput& input, SmallMachine& machine, ActivationStore& activations)
      : accesses_(input.record_walk),
        machine_(machine),
        activations_(activations),
        patterns_(machine.device.allocate_pinned("patterns", bytes(kAccesses))),
        seen_(machine.device.allocate_pinned("seen", bytes(kAccesses))) {}

  void walk() {
    ASSERT_LE(accesses_.size(), kAccesses);
    activations_.begin(machine_.plan.accesses);
    std::vector<std::byte> latest(kRecords);
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      const RecordAccess& access = accesses_[i];
      const auto record = static_cast<std::size_t>(access.record);
      const std::int64_t size = machine_.plan.record_bytes[record];
      std::byte* const data = activations_.open(access.record);
      if (access.read) {
        expected_.push_back({i, latest[record], size});
        machine_.compute->copy(seen_.data() + bytes(i), data, size);
      }
      if (access.write) {
        latest[record] = static_cast<std::byte>(++version_);
        std::memset(patterns_.data() + bytes(i), version_, static_cast<std::size_t>(size));
        machine_.compute->copy(data, patterns_.data() + bytes(i), size);
      }
      const bool last_of_turn = i + 1 == accesses_.size() || accesses_[i + 1].turn != access.turn;
      if (last_of_turn) activations_.end_turn();
    }
    activations_.end();
    machine_.compute->synchronize();
    check();
  }

 private:
  static constexpr std::size_t kAccesses = 45;
  static constexpr std::int64_t bytes(std::size_t accesses) {
    return static_cast<std::int64_t>(accesses) * 24'576;
  }
  struct Expected {
    std::size_t access;
    std::byte value;
    std::int64_t size;
  };
  void check() {
    for (const Expected& each : expected_) {
      const std::byte* const data = seen_.data() + bytes(each.access);
      EXPECT_EQ(std::count(data, data + each.size, each.value), each.size)
          << "access " << each.access;
    }
    expected_.clear();
  }

  const std::vector<RecordAccess> accesses_;
  SmallMachine& machine_;
  ActivationStore& activations_;
  PinnedBuffer patterns_;
  PinnedBuffer seen_;
  std::vector<Expected> expected_;
  int version_ = 0;
};

class ActivationStoreTest : public ::testing::TestWithParam<Case> {};
class ActivationStoreOnNvme : public ActivationStoreTest {};

TEST_P(ActivationStoreTest, RecordsKeepTheirContents) {
  SmallMachine machine(input_of(GetParam()), kSlow);
  ActivationStore activations(machine.store, machine.device, *machine.compute, machine.failure);
  Walker walker(input_of(GetParam()), machine, activations);
  for (int pass = 0; pass < 4; ++pass) walker.walk();
}

TEST_P(ActivationStoreOnNvme, MovesWhatTheScheduleSays) {
  SmallMachine machine(input_of(GetParam()), {});
  ActivationStore activations(machine.store, machine.device, *machine.compute, machine.failure);
  Walker(input_of(GetParam()), machine, activations).walk();
  io::StorageTraffic planned;
  for (const ScheduledAccess& access : machine.plan.accesses) {
    const std::int64_t bytes = round_up(
        machine.plan.record_bytes[static_cast<std::size_t>(access.access.record)], kPageBytes);
    if (access.load) planned.read_bytes += bytes;
    if (access.store) planned.written_bytes += bytes;
  }
  EXPECT_GT(planned.read_bytes, 0);
  EXPECT_EQ(machine.storage->traffic().read_bytes, planned.read_bytes);
  EXPECT_EQ(machine.storage->traffic().written_bytes, planned.written_bytes);
}

TEST_P(ActivationStoreOnNvme, ABrokenDriveEndsTheWalk) {
  for (const std::int64_t request : {0, 1, 3}) {
    SmallMachine machine(input_of(GetParam()), {.delay_us_max = 100, .fail_request = request});
    ActivationStore activations(machine.store, machine.device, *machine.compute, machine.failure);
    Walker walker(input_of(GetParam()), machine, activations);
    EXPECT_THROW(walker.walk(), IoError) << "request " << request;
    machine.compute.reset();  // before the events that it still records
  }
}

std::string name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(name_of(info.param.tier)) + "_prefetch_" + std::to_string(info.param.prefetch);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ActivationStoreTest,
                         ::testing::Values(Case{Tier::device, 0}, Case{Tier::host, 0},
                                           Case{Tier::host, 2}, Case{Tier::nvme, 0},
                                           Case{Tier::nvme, 2}),
                         name);
INSTANTIATE_TEST_SUITE_P(Tiers, ActivationStoreOnNvme,
                         ::testing::Values(Case{Tier::nvme, 0}, Case{Tier::nvme, 2}), name);

}  // namespace
}  // namespace strata::offload
