// State moves by whole blocks through the smallest memory that a run has for it.
#include "engine/step/state_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "io/fault_storage.h"
#include "kernels/base/failure_latch.h"
#include "kernels/device/cpu_device.h"
#include "tests/offload/small_machine.h"

namespace strata::engine {
namespace {

using offload::StateDtypes;
using offload::StateKind;
using offload::Tier;

constexpr int kTable = 0;  // 20,480 elements: a block and a part of one

struct Case {
  StateDtypes dtypes;
  Tier tier;
};

class StateAccessFormats : public ::testing::TestWithParam<Case> {};

TEST_P(StateAccessFormats, WholeShardsComeBackAsWritten) {
  offload::PlanInput input = offload::testing::placed(GetParam().tier, Tier::host);
  input.dtypes = GetParam().dtypes;
  input.block_elements = 16384;
  input.chunk_elements = 16384;  // of the optimizer: one block
  const offload::Plan plan = offload::testing::plan_of(input);
  FailureLatch failure;
  WorkerSet workers(2);
  Budget host("host memory", 16 * kMiB);
  CpuDevice device({8 * kMiB, -1}, host, workers, failure, nullptr);
  const auto storage = io::make_memory_storage(plan.total_bytes(Tier::nvme) + 1);
  offload::StateStore store(plan, device, storage.get(), workers);
  const PinnedBuffer scratch = device.allocate_pinned("scratch", optimizer_buffer_bytes(plan));
  StateAccess access(store, device, scratch.span());

  for (const StateKind kind :
       {StateKind::weights, StateKind::remainder, StateKind::moment1, StateKind::moment2}) {
    const std::int64_t bytes = plan.shard_bytes(plan.units[kTable], kind);
    std::vector<std::byte> written(static_cast<std::size_t>(bytes));
    std::mt19937 generator(static_cast<unsigned>(kind) + 1);
    std::generate(written.begin(), written.end(),
                  [&] { return static_cast<std::byte>(generator()); });
    access.write(kTable, kind, 0, written);
    access.flush();
    std::vector<std::byte> read(written.size());
    access.read(kTable, kind, 0, read);
    EXPECT_EQ(read, written) << offload::name_of(kind);
    // From the second block on.
    const auto block = static_cast<std::size_t>(std::min(plan.block_bytes(kind), bytes));
    read.resize(written.size() - block);
    access.read(kTable, kind, static_cast<std::int64_t>(block), read);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), written.begin() + static_cast<long>(block)))
        << offload::name_of(kind);
  }
}

// The last two leave less room for what is streamed than one block of f32 weights takes.
INSTANTIATE_TEST_SUITE_P(
    All, StateAccessFormats,
    ::testing::Values(Case{{}, Tier::nvme}, Case{{}, Tier::device},
                      Case{{Dtype::f32, Dtype::f32, MomentFormat::f32, 2}, Tier::nvme},
                      Case{{Dtype::bf16, Dtype::f32, MomentFormat::int8, 2}, Tier::nvme},
                      Case{{Dtype::bf16, Dtype::bf16, MomentFormat::bf16, 1}, Tier::nvme},
                      Case{{Dtype::f32, Dtype::bf16, MomentFormat::int8, 1}, Tier::nvme},
                      Case{{Dtype::f32, Dtype::bf16, MomentFormat::int8, 1}, Tier::device}));

// A new master is an update: it leaves the slot that a commit rests on, and takes the moments
// along.
TEST(StateAccess, ANewMasterLeavesTheCommitAndKeepsTheMoments) {
  offload::PlanInput input = offload::testing::placed(Tier::nvme, Tier::host);
  input.durability = offload::Durability::commits;
  offload::testing::SmallMachine machine(input, {});
  const PinnedBuffer scratch =
      machine.device.allocate_pinned("scratch", optimizer_buffer_bytes(machine.plan));
  StateAccess access(machine.store, machine.device, scratch.span());
  const auto shard = static_cast<std::size_t>(machine.plan.units[kTable].shard_elements);
  const std::vector<float> moments(shard, 0.25f);
  for (const StateKind kind : {StateKind::moment1, StateKind::moment2}) {
    access.write(kTable, kind, 0, std::as_bytes(std::span(moments)));
  }
  const auto elements = static_cast<std::size_t>(machine.plan.units[kTable].elements);
  const std::vector<float> old_master(elements, 1.5f);
  const std::vector<float> new_master(elements, 2.5f);
  write_master(access, machine.store, kTable, 0, old_master);
  EXPECT_EQ(machine.store.live_slot(kTable), 0);
  machine.store.protect_live_slots();
  write_master(access, machine.store, kTable, 0, new_master);
  EXPECT_EQ(machine.store.live_slot(kTable), 1);
  EXPECT_EQ(read_master(access, machine.store, kTable, 0), new_master);
  std::vector<float> read(shard);
  access.read(kTable, StateKind::moment2, 0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, moments);
}

}  // namespace
}  // namespace strata::engine
