// A small model's worth of input for plans, without a model: units of several sizes, one of them
// tied, and a walk over activation records with a turn at the end of forward.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/base/bytes.h"
#include "offload/plan.h"

namespace strata::offload::testing {

inline constexpr int kUnits = 5;
inline constexpr int kRecords = 6;

// Layer i reads record i and writes record i + 1; backward updates record i and reads i + 1.
inline void add_record_walk(int records, PlanInput& input) {
  int turn = 0;
  input.record_walk = {{turn++, 0, false, true}};
  for (int layer = 0; layer + 1 < records; ++layer, ++turn) {
    input.record_walk.push_back({turn, layer, true, false});
    input.record_walk.push_back({turn, layer + 1, false, true});
  }
  input.backward_turn = turn;
  for (int layer = records - 1; layer-- > 0; ++turn) {
    input.record_walk.push_back({turn, layer, true, true});
    input.record_walk.push_back({turn, layer + 1, true, false});
  }
}

// Everything but the budgets, which are generous.
inline PlanInput small_input() {
  PlanInput input;
  input.units = {
      {"table", 20000, 2}, {"a", 9000, 1}, {"b", 9000, 1}, {"c", 9000, 1}, {"n", 100, 1}};
  input.uses = {0, 1, 2, 3, 4, 4, 3, 2, 1, 0};
  input.forward_uses = kUnits;
  input.device_memory_bytes = 8 * kMiB;
  input.host_memory_bytes = 8 * kMiB;
  input.chunk_elements = 4096;
  input.block_elements = 4096;
  input.fixed = {{Tier::device, "workspace", 1000}};
  add_record_walk(kRecords, input);
  for (int record = 0; record < kRecords; ++record) input.record_bytes.push_back(5000 + record);
  return input;
}

inline PlanInput placed(Tier states, Tier activations) {
  PlanInput input = small_input();
  input.placement.states.fill(states);
  input.placement.activations = activations;
  return input;
}

inline Plan plan_of(const PlanInput& input) {
  PlanResult result = make_plan(input);
  EXPECT_TRUE(result.fits) << "short by "
                           << result.shortfall.needed_bytes - result.shortfall.budget_bytes;
  return std::move(result.plan);
}

}  // namespace strata::offload::testing
