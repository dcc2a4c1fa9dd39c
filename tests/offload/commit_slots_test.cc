// What commits rest on: after an update the slot of the last commit still holds what it held,
// whatever the tier, and a store that adopts a commit reads it back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/base/error.h"
#include "offload/store/block_reader.h"
#include "offload/store/manifest.h"
#include "tests/offload/small_machine.h"
#include "tests/support/error_text.h"

namespace strata::offload::testing {
namespace {

constexpr int kUnit = 1;
constexpr int kFrozen = 2;

PlanInput input_of(Durability durability, Tier tier = Tier::nvme) {
  PlanInput input = placed(tier, Tier::device);
  input.durability = durability;
  input.units[kFrozen].frozen = true;
  return input;
}

store::Manifest manifest_of(const Plan& plan) {
  return store::make_manifest(plan, std::vector<std::vector<store::Parameter>>(kUnits));
}

// The state of a unit after some update: bytes that a formula tells, others for every kind.
std::vector<std::byte> state_bytes_of(int unit, StateKind kind, int update, std::int64_t bytes) {
  std::mt19937 random(static_cast<unsigned>(update * 100 + unit * 10 + static_cast<int>(kind)));
  std::vector<std::byte> values(static_cast<std::size_t>(bytes));
  for (std::byte& value : values) value = static_cast<std::byte>(random());
  return values;
}

class CommitSlots : public ::testing::Test {
 protected:
  explicit CommitSlots(Durability durability = Durability::commits, Tier tier = Tier::nvme)
      : machine(input_of(durability, tier), {}), manifest(manifest_of(machine.plan)) {
    writes.report_to(machine.store.lasting_writes());
  }

  // Every lasting state of a unit as after `update`, written where its tier has it written.
  void update(int unit, int update) {
    for (const StateKind kind : kLastingKinds) {
      const auto values = state_bytes_of(unit, kind, update, bytes(unit, kind));
      if (machine.store.tier(unit, kind) == Tier::host) {
        std::ranges::copy(values, machine.store.host(unit, kind).data());
        continue;
      }
      std::ranges::copy(values, memory.data());
      machine.store.write(unit, kind, 0, memory.span(0, bytes(unit, kind)), writes);
      writes.wait();
    }
    machine.store.end_update(unit);
  }
  void fill() {
    for (int unit = 0; unit < kUnits; ++unit) update(unit, 0);
  }
  // As a committer does it.
  store::CommitTable commit() {
    std::vector<int> changed;
    for (int unit = 0; unit < kUnits; ++unit) {
      if (!machine.store.is_protected(unit)) changed.push_back(unit);
    }
    machine.store.protect_live_slots();
    for (const int unit : changed) {
      for (const StateKind kind : kLastingKinds) {
        if (bytes(unit, kind) == 0 || machine.store.tier(unit, kind) != Tier::host) continue;
        machine.store.write_copy(unit, kind, 0, machine.store.host(unit, kind), writes);
      }
    }
    machine.store.lasting_writes().wait();
    store::CommitTable table;
    table.live_slots.resize(kUnits);
    table.checksums.resize(static_cast<std::size_t>(manifest.committed_blocks()));
    machine.store.fill(table);
    return table;
  }
  // The state that `table` commits, as whoever has the storage, the manifest and the table reads
  // it.
  bool holds(const store::CommitTable& table, int unit, int update) {
    const store::BlockReader reader(*machine.storage, manifest, 0);
    for (const StateKind kind : kLastingKinds) {
      const auto values = state_bytes_of(unit, kind, update, bytes(unit, kind));
      std::int64_t at = 0;
      for (std::int64_t block = 0; block < reader.blocks(unit, kind); ++block) {
        const std::int64_t read = reader.read(table, unit, kind, block, memory.span());
        if (std::memcmp(memory.data(), values.data() + at, static_cast<std::size_t>(read)) != 0) {
          return false;
        }
        at += read;
      }
      EXPECT_EQ(at, bytes(unit, kind));
    }
    return true;
  }
  // Through the store.
  bool reads(StateStore& store, int unit, int update) {
    for (const StateKind kind : kLastingKinds) {
      const auto values = state_bytes_of(unit, kind, update, bytes(unit, kind));
      VerifiedReads arriving;
      store.read(unit, kind, 0, memory.span(0, bytes(unit, kind)), arriving);
      arriving.wait();
      if (!std::equal(values.begin(), values.end(), memory.data())) return false;
    }
    return true;
  }
  std::int64_t bytes(int unit, StateKind kind) const {
    return machine.plan.shard_bytes(machine.plan.units[static_cast<std::size_t>(unit)], kind);
  }

  SmallMachine machine;
  store::Manifest manifest;
  PinnedBuffer memory = machine.device.allocate_pinned("test", 1 * kMiB);
  io::IoGroup writes;
};

struct ResidentCommitSlots : CommitSlots {
  ResidentCommitSlots() : CommitSlots(Durability::commits, Tier::host) {}
};
struct OneSlot : CommitSlots {
  OneSlot() : CommitSlots(Durability::clean_mark) {}
};

TEST_F(CommitSlots, ACommitStaysWhileUpdatesGoOn) {
  fill();
  const store::CommitTable first = commit();
  update(kUnit, 1);
  update(kUnit, 2);  // in place: no commit rests on the slot
  EXPECT_TRUE(holds(first, kUnit, 0));
  EXPECT_TRUE(reads(machine.store, kUnit, 2));
  const store::CommitTable second = commit();
  EXPECT_TRUE(holds(second, kUnit, 2));
  EXPECT_TRUE(holds(second, kUnit + 2, 0)) << "not written since";
  EXPECT_EQ(first.live_slots, (std::vector<std::uint8_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(second.live_slots, (std::vector<std::uint8_t>{0, 1, 0, 0, 0}));
  EXPECT_TRUE(holds(first, kUnit, 0)) << "until the next update";
  update(kUnit, 3);
  EXPECT_TRUE(holds(second, kUnit, 2));
  EXPECT_EQ(machine.store.live_slot(kUnit), 0);
}

TEST_F(CommitSlots, ReadsSeeTheStateBeforeAnUpdateUntilItHasEnded) {
  fill();
  commit();
  for (const StateKind kind : kLastingKinds) {
    std::ranges::copy(state_bytes_of(kUnit, kind, 1, bytes(kUnit, kind)), memory.data());
    machine.store.write(kUnit, kind, 0, memory.span(0, bytes(kUnit, kind)), writes);
    writes.wait();
  }
  EXPECT_TRUE(reads(machine.store, kUnit, 0));
  machine.store.end_update(kUnit);
  EXPECT_TRUE(reads(machine.store, kUnit, 1));
}

TEST_F(ResidentCommitSlots, WhatIsResidentIsCopiedWhereItsShardIsLive) {
  fill();
  const store::CommitTable first = commit();
  update(kUnit, 1);
  EXPECT_TRUE(holds(first, kUnit, 0));
  const store::CommitTable second = commit();
  EXPECT_TRUE(holds(second, kUnit, 1));
  EXPECT_TRUE(holds(second, kFrozen, 0));
  EXPECT_TRUE(holds(first, kUnit, 0));
  EXPECT_TRUE(reads(machine.store, kUnit, 1)) << "a resident state reads back its commit";
  const Traffic counted = machine.store.ledger().total();
  std::int64_t copied = bytes(kUnit, StateKind::weights);  // once more than the others
  for (int unit = 0; unit < kUnits; ++unit) copied += bytes(unit, StateKind::weights);
  EXPECT_EQ(counted.bytes(Link::nvme_written, MovedKind::weights), copied);
}

TEST_F(OneSlot, IsWrittenInPlaceWhateverRestsOnIt) {
  fill();
  const store::CommitTable mark = commit();
  EXPECT_TRUE(holds(mark, kUnit, 0));
  update(kUnit, 1);
  EXPECT_EQ(machine.store.live_slot(kUnit), 0);
  EXPECT_THROW(holds(mark, kUnit, 0), IoError) << "its checksums are those of before";
  EXPECT_TRUE(holds(commit(), kUnit, 1));
}

TEST_F(CommitSlots, AnotherStoreGoesOnFromACommit) {
  fill();
  commit();
  update(kUnit, 1);
  const store::CommitTable table = commit();
  update(kUnit, 2);
  Budget host{"host memory", 16 * kMiB};
  CpuDevice device{{16 * kMiB, -1}, host, machine.workers, machine.failure, nullptr};
  StateStore resumed(machine.plan, device, machine.storage.get(), machine.workers);
  resumed.adopt(table);
  EXPECT_TRUE(reads(resumed, kUnit, 1));
  EXPECT_TRUE(reads(resumed, kFrozen, 0));
  EXPECT_EQ(resumed.live_slot(kUnit), 1);
  EXPECT_EQ(resumed.target_slot(kUnit), 0);
  store::CommitTable again = table;
  std::ranges::fill(again.checksums, 0);
  std::ranges::fill(again.live_slots, 0);
  resumed.fill(again);
  EXPECT_EQ(again.checksums, table.checksums);
  EXPECT_EQ(again.live_slots, table.live_slots);
}

TEST_F(CommitSlots, DamageIsFoundInTheSlotThatIsRead) {
  fill();
  commit();
  update(kUnit, 1);
  const Extent extent = ExtentMap(machine.plan).of(kUnit, StateKind::moment1);
  const auto damage = [&](std::int64_t offset) {
    std::memset(memory.data(), 0, kPageBytes);
    io::IoGroup group;
    machine.storage->write(offset, memory.span(0, kPageBytes), group);
    group.wait();
  };
  damage(extent.slot_offsets[0]);
  EXPECT_TRUE(reads(machine.store, kUnit, 1)) << "of the commit's slot, which nobody reads";
  damage(extent.slot_offsets[1]);
  const auto text = test::error_text<IoError>([&] { reads(machine.store, kUnit, 1); });
  EXPECT_TRUE(test::mentions(text, machine.storage->locate(extent.slot_offsets[1]))) << text;
  EXPECT_TRUE(test::mentions(text, "strata verify")) << text;
}

TEST(CommitSlotsFaults, WhoeverCommitsGetsTheFailureOfAWrite) {
  SmallMachine machine(input_of(Durability::commits), {.fail_request = 0});
  PinnedBuffer memory = machine.device.allocate_pinned("test", 64 * kKiB);
  io::IoGroup writes;
  writes.report_to(machine.store.lasting_writes());
  const std::int64_t bytes =
      machine.plan.shard_bytes(machine.plan.units[kUnit], StateKind::weights);
  machine.store.write(kUnit, StateKind::weights, 0, memory.span(0, bytes), writes);
  EXPECT_THROW(writes.wait(), IoError);
  EXPECT_THROW(machine.store.lasting_writes().wait(), IoError);
}

struct CommitSlotsDeathTest : CommitSlots {
  CommitSlotsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(CommitSlotsDeathTest, AWriteThatNoCommitWaitsFor) {
  io::IoGroup stranger;
  EXPECT_DEATH(machine.store.write(kUnit, StateKind::weights, 0, memory.span(0, 4096), stranger),
               "would not wait");
}

TEST_F(CommitSlotsDeathTest, AWriteToAFrozenUnitThatACommitRestsOn) {
  machine.store.protect_live_slots();
  EXPECT_DEATH(machine.store.write(kFrozen, StateKind::weights, 0, memory.span(0, 4096), writes),
               "rests on the only slot of b");
}

TEST_F(CommitSlotsDeathTest, ACommitOfStateThatWasNeverWritten) {
  EXPECT_DEATH(commit(), "never written");
}

}  // namespace
}  // namespace strata::offload::testing
