// Initial values of a unit from a seed: GPT-2's scheme (normal 0.02, residual projections
// 0.02 / sqrt(2 L), zero biases, unit norms).
//
// Value i of a tensor depends on (seed, tensor name, index in the whole tensor) alone, by a
// counter-based generator (Philox 4x32-10, Salmon et al. 2011, and Box-Muller), so any rank fills
// any range of its shard and gets the same model.
#pragma once

#include <cstdint>
#include <span>

#include "models/unit_spec.h"

namespace strata::models {

// Fills `values` with elements [first_element, first_element + values.size()) of the unit's flat
// buffer; gaps and everything beyond unit.elements become 0.
void initial_values(const UnitSpec& unit, std::uint64_t seed, std::int64_t first_element,
                    std::span<float> values);

}  // namespace strata::models
