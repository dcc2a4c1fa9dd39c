// The walk over activation records: numbers are distinct, nothing is read that was not written, and
// what blocks save moves no more than it must.
#include "engine/plan/model_walk.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace strata::engine {
namespace {

using offload::RecordAccess;
using offload::RecordSlots;
using offload::ScheduledAccess;

constexpr int kLayers = 6;
constexpr int kMicroBatches = 4;

WalkShape shape(bool recompute) {
  return {.layers = kLayers,
          .token_chunks = 2,
          .head_chunks = 2,
          .micro_batches = kMicroBatches,
          .micro_batches_max = kMicroBatches,
          .recompute = recompute};
}

TEST(ModelWalk, RecordsHaveNumbersOfTheirOwn) {
  const WalkShape walk = shape(false);
  std::set<int> numbers;
  int records = 0;
  const auto add = [&](int record) {
    numbers.insert(record);
    ++records;
  };
  for (int j = 0; j < kMicroBatches; ++j) {
    for (int layer = 0; layer <= kLayers; ++layer) add(block_record(walk, layer, j));
    for (int layer = 0; layer < kLayers; ++layer) add(saved_record(walk, layer, j));
    add(normed_record(walk, j));
    add(dnormed_record(walk, j));
  }
  EXPECT_EQ(std::ssize(numbers), records);
  EXPECT_EQ(*numbers.begin(), 0);
  EXPECT_EQ(*numbers.rbegin(), records - 1);
}

TEST(ModelWalk, NothingIsReadThatWasNotWritten) {
  for (const bool recompute : {true, false}) {
    std::set<int> written;
    for (const RecordAccess& access : record_walk(shape(recompute), WalkKind::training).accesses) {
      EXPECT_TRUE(!access.read || written.contains(access.record)) << access.record;
      if (access.write) written.insert(access.record);
    }
  }
}

// Though a block's input is stored, loaded and, as its gradient, stored and loaded again.
TEST(ModelWalk, WhatBlocksSaveMovesOnceEachWay) {
  const WalkShape walk = shape(false);
  const std::vector<RecordAccess> accesses = record_walk(walk, WalkKind::training).accesses;
  const int first_saved = saved_record(walk, 0, 0);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(first_saved), 1'000);
  bytes.insert(bytes.end(), kLayers * kMicroBatches, 100'000);
  const RecordSlots slots = offload::plan_record_slots(accesses, bytes, 1, 1);
  EXPECT_EQ(slots.groups[0].count, 2 + 1) << "one for the turn, one ahead of it, and a spare one";
  std::map<int, int> stores;
  std::map<int, int> loads;
  for (const ScheduledAccess& access : offload::schedule_records(accesses, slots, 1)) {
    stores[access.access.record] += access.store ? 1 : 0;
    loads[access.access.record] += access.load ? 1 : 0;
  }
  int moved = 0;
  for (int record = first_saved; record < std::ssize(bytes); ++record) {
    EXPECT_LE(stores[record], 1) << record;
    EXPECT_EQ(stores[record], loads[record]) << record;
    moved += stores[record];
  }
  EXPECT_EQ(moved, kLayers * kMicroBatches - 2) << "but for two that are still in their slots";
  int input_stores = 0;
  for (int j = 0; j < kMicroBatches; ++j) input_stores += stores[block_record(walk, 2, j)];
  EXPECT_GT(input_stores, kMicroBatches);
}

}  // namespace
}  // namespace strata::engine
