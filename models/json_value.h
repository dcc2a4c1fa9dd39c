// For parsers of somebody else's JSON, which trust nothing.
#pragma once

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"

namespace strata::models {

inline constexpr int kJsonDepthMax = 100;

// A callback to parse with. Throws FormatError for values nested deeper than that: nlohmann::json
// writes and destroys them by recursion.
inline constexpr auto limit_depth = [](int depth, auto /*event*/, const auto& /*parsed*/) {
  if (depth > kJsonDepthMax) {
    throw_error<FormatError>("its JSON is nested deeper than {} levels", kJsonDepthMax);
  }
  return true;
};

// The value of a key, or null where there is none, or `object` is none.
inline const nlohmann::json& value_of(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

}  // namespace strata::models
