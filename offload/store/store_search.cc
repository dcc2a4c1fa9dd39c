#include "offload/store/store_search.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "kernels/base/error.h"

namespace strata::store {

namespace {

namespace fs = std::filesystem;

bool all_of_kind(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// As store_file_name() makes them.
bool is_store_name(std::string_view name) {
  constexpr std::string_view kPrefix = "strata-", kRank = "-rank", kSuffix = ".store";
  constexpr std::size_t kRunIdDigits = 32;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  return all_of_kind(name.substr(0, kRunIdDigits), "0123456789abcdef") &&
         name.substr(std::min(kRunIdDigits, name.size())).starts_with(kRank) &&
         all_of_kind(name.substr(kRunIdDigits + kRank.size()), "0123456789");
}

FoundStore look_at(const std::string& path) {
  FoundStore found{StoreState::stale, io::FoundStoreFile(path), {}, ""};
  std::vector<std::byte> bytes(kHeaderBytes);
  bytes.resize(static_cast<std::size_t>(found.file.read(0, bytes)));
  try {
    found.header = decode_header(bytes);
  } catch (const FormatError& error) {
    found.problem = error.what();
    found.state = StoreState::damaged;
  }
  if (found.file.in_use()) found.state = StoreState::in_use;
  return found;
}

}  // namespace

const char* name_of(StoreState state) {
  switch (state) {
    case StoreState::in_use:
      return "in use";
    case StoreState::stale:
      return "stale";
    case StoreState::damaged:
      return "damaged";
  }
  return "";
}

std::vector<FoundStore> find_stores(const std::string& directory) {
  std::vector<std::string> paths;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      const bool is_file = entry.is_regular_file() && !entry.is_symlink();
      if (is_file && is_store_name(entry.path().filename().string())) {
        paths.push_back(entry.path().string());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw_error<IoError>("list {}: {}", directory, error.code().message());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<FoundStore> stores;
  for (const std::string& path : paths) {
    try {
      stores.push_back(look_at(path));
    } catch (const IoError&) {
      if (fs::exists(path)) throw;  // otherwise its run has ended and removed it
    }
  }
  return stores;
}

LeftOver left_over(const std::string& directory) {
  LeftOver left;
  for (const FoundStore& found : find_stores(directory)) {
    if (found.state == StoreState::in_use) continue;
    ++(found.state == StoreState::stale ? left.stale : left.damaged);
    left.bytes += found.file.allocated_bytes();
  }
  return left;
}

}  // namespace strata::store
