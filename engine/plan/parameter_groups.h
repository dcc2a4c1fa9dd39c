// ParameterGroups: what the optimizer does differently from tensor to tensor: weight decay, and a
// factor on the learning rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/unit_spec.h"

namespace strata::engine {

// Elements of a unit's flat buffer from the end of the segment before (or 0) to `last`. Segments of
// a unit cover everything up to any index (the last one ends at int64 max), so padding belongs to
// the last tensor's.
struct ParameterSegment {
  std::int64_t last = 0;
  double lr_scale = 1;  // 0: frozen
  bool decay = false;
  bool frozen() const { return lr_scale == 0; }
};

// Per unit. Patterns are shell patterns (* ? [..]) on tensor names.
// `no_decay`: matrices decay; biases, norms and tensors that match one of these do not.
// `lr_scale`: "PATTERN=X", the factor on the learning rate of the tensors that match; where several
// match a tensor, the last of them counts. 0 freezes: the tensor is not updated, and its gradient
// does not count in the norm.
// Throws ConfigError for a pattern that matches no tensor, a factor that is no number from 0 up or
// takes `learning_rate`, the largest of the run, out of f32's range, and where everything is
// frozen.
std::vector<std::vector<ParameterSegment>> parameter_groups(
    const std::vector<models::UnitSpec>& units, const std::vector<std::string>& no_decay,
    const std::vector<std::string>& lr_scale, double learning_rate);

// Whether a unit is never updated.
bool wholly_frozen(const std::vector<ParameterSegment>& segments);

struct ElementRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past
};
// The longest runs of elements within [first, last) of a unit that are not frozen, counted from
// `first`.
std::vector<ElementRange> trained_ranges(const std::vector<ParameterSegment>& segments,
                                         std::int64_t first, std::int64_t last);

}  // namespace strata::engine
