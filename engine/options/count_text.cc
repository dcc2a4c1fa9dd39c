#include "engine/options/count_text.h"

#include <fmt/format.h>

#include <cstddef>

namespace strata::engine {

std::string with_separators(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::ptrdiff_t first_digit = count < 0 ? 1 : 0;
  for (auto end = static_cast<std::ptrdiff_t>(text.size()) - 3; end > first_digit; end -= 3) {
    text.insert(static_cast<std::size_t>(end), 1, ',');
  }
  return text;
}

std::string count_text(std::int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", noun);
  if (plural.empty()) return fmt::format("{} {}s", with_separators(count), noun);
  return fmt::format("{} {}", with_separators(count), plural);
}

}  // namespace strata::engine
