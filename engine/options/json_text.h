// JSON as text, whatever bytes its strings have: a path need not be UTF-8.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata::engine {

// Bytes that are not UTF-8 become U+FFFD. `indent`: -1 for one line.
inline std::string json_text(const nlohmann::json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace strata::engine
