// ExtentMap: where everything of one rank lies in its store's data: a pure function of the plan.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "offload/plan.h"

namespace strata::store {

struct ExtentMap {
  static constexpr std::int64_t kAbsent = -1;  // on another tier

  std::vector<std::array<std::int64_t, offload::kStateKinds>> states;  // by unit and kind
  std::vector<std::int64_t> records;  // activations; empty: on another tier
  std::int64_t bytes = 0;
};

ExtentMap map_extents(const offload::Plan& plan);

}  // namespace strata::store
