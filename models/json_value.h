// What somebody else's JSON has under a key, for parsers that trust nothing.
#pragma once

#include <nlohmann/json.hpp>

namespace strata::models {

// The value of a key, or null where there is none, or `object` is none.
inline const nlohmann::json& value_of(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

}  // namespace strata::models
