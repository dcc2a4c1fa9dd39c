// ParameterGroups: which elements of each unit weight decay applies to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/unit_spec.h"

namespace strata::engine {

// [first, last) elements of a unit's flat buffer with one setting. Segments of a unit are sorted,
// adjacent and cover everything up to any index (the last one ends at int64 max).
struct ParameterSegment {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool decay = false;
};

// Per unit. Matrices decay; biases, norms and tensors whose name matches one of `no_decay` (shell
// patterns: * ? [..]) do not. Throws ConfigError for a pattern that matches no tensor.
std::vector<std::vector<ParameterSegment>> parameter_groups(
    const std::vector<models::UnitSpec>& units, const std::vector<std::string>& no_decay);

}  // namespace strata::engine
