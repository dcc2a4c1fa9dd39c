#include "engine/data/data_paths.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "engine/data/untokenized.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos && !exists(text);
}

std::vector<std::string> matches_of(const std::string& pattern) {
  struct Matches : glob_t {
    ~Matches() { ::globfree(this); }
  } matches{};
  // GLOB_ERR: a folder that cannot be read is an error, not a folder without files.
  const int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &matches);
  if (result == GLOB_NOMATCH) throw_error<ConfigError>("no file matches '{}'", pattern);
  if (result != 0) throw_error<ConfigError>("cannot list the folders of '{}'", pattern);
  std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> expand_list(const std::string& text) {
  if (exists(text)) return {text};
  std::vector<std::string> paths;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string item = text.substr(start, end - start);
    if (item.empty()) throw_error<ConfigError>("'{}' has an empty name in its list", text);
    if (is_pattern(item)) {
      const std::vector<std::string> matches = matches_of(item);
      paths.insert(paths.end(), matches.begin(), matches.end());
    } else {
      paths.push_back(item);
    }
    start = end + 1;
  }
  return paths;
}

void require_tokens(const std::string& path) {
  constexpr std::array<std::string_view, 5> kUntokenized = {".jsonl", ".ndjson", ".json",
                                                            ".parquet", ".arrow"};
  constexpr std::array<std::string_view, 12> kOthers = {
      ".csv", ".tsv", ".xlsx", ".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z", ".rar"};
  const auto is_of = [](std::span<const std::string_view> kinds, std::string_view extension) {
    return std::find(kinds.begin(), kinds.end(), extension) != kinds.end();
  };
  std::string extension = std::filesystem::path(path).extension();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_of(kOthers, extension)) {
    throw_error<ConfigError>(
        "'{}' is a table or an archive: make JSON lines or text of it first, and tokens of those "
        "(docs/data.md)",
        path);
  }
  if (!is_of(kUntokenized, extension)) return;
  throw UntokenizedFile(fmt::format("'{}' has no tokens", path), path);
}

}  // namespace

std::vector<std::string> expand_data_paths(const std::string& text) {
  std::vector<std::string> paths = expand_list(text);
  for (const std::string& path : paths) require_tokens(path);
  return paths;
}

}  // namespace strata::engine
