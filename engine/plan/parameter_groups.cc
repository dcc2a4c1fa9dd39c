#include "engine/plan/parameter_groups.h"

#include <fnmatch.h>

#include <limits>

#include "kernels/base/error.h"

namespace strata::engine {

std::vector<std::vector<ParameterSegment>> parameter_groups(
    const std::vector<models::UnitSpec>& units, const std::vector<std::string>& no_decay) {
  std::vector<std::uint8_t> matched(no_decay.size(), 0);
  std::vector<std::vector<ParameterSegment>> groups;
  for (const models::UnitSpec& unit : units) {
    std::vector<ParameterSegment>& segments = groups.emplace_back();
    for (const models::TensorSpec& tensor : unit.tensors) {
      bool decay = tensor.decay;
      for (std::size_t p = 0; p < no_decay.size(); ++p) {
        if (fnmatch(no_decay[p].c_str(), tensor.name.c_str(), 0) != 0) continue;
        matched[p] = 1;
        decay = false;
      }
      if (!segments.empty() && segments.back().decay == decay) continue;
      if (!segments.empty()) segments.back().last = tensor.offset_elements;
      segments.push_back({tensor.offset_elements, 0, decay});
    }
    segments.back().last = std::numeric_limits<std::int64_t>::max();
  }
  for (std::size_t p = 0; p < no_decay.size(); ++p) {
    if (matched[p] == 0) {
      throw_error<ConfigError>(
          "--no-decay '{}' matches no tensor of this model; names read like {}", no_decay[p],
          units.back().tensors.front().name);
    }
  }
  return groups;
}

}  // namespace strata::engine
