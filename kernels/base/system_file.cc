#include "kernels/base/system_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace strata {

std::optional<std::string> read_system_file(const std::string& path) {
  std::error_code unknown;
  // A pipe would be waited for.
  if (!std::filesystem::is_regular_file(path, unknown)) return std::nullopt;
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::optional<std::int64_t> number_of_key(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t line_end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, line_end);
    if (line.starts_with(key)) {
      const std::size_t digits = line.find_first_not_of(" \t", key.size());
      std::int64_t number = 0;
      if (digits != std::string_view::npos && digits > key.size() &&
          std::from_chars(line.data() + digits, line.data() + line.size(), number).ec ==
              std::errc()) {
        return number;
      }
    }
    text.remove_prefix(std::min(line_end + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace strata
