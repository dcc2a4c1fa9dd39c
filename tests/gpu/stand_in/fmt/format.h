// What the CUDA backend uses of fmt, for machines without it: {} and {:.3g}.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace fmt {

template <typename...>
using format_string = std::string_view;

template <typename T>
std::string text_of(std::string_view spec, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    std::string conversion = "%";
    conversion += spec.empty() ? "g" : spec;
    char text[64];
    const int length = std::snprintf(text, sizeof text, conversion.c_str(), value);
    return {text, static_cast<std::size_t>(length)};
  } else {
    std::ostringstream text;
    text << std::boolalpha << value;
    return text.str();
  }
}

inline std::string format(std::string_view pattern) { return std::string(pattern); }

template <typename First, typename... Rest>
std::string format(std::string_view pattern, const First& first, const Rest&... rest) {
  const std::size_t open = pattern.find('{');
  if (open == pattern.npos) return std::string(pattern);
  const std::size_t close = pattern.find('}', open);
  std::string_view spec = pattern.substr(open + 1, close - open - 1);
  if (!spec.empty()) spec.remove_prefix(1);  // the colon
  return std::string(pattern.substr(0, open)) + text_of(spec, first) +
         format(pattern.substr(close + 1), rest...);
}

}  // namespace fmt
