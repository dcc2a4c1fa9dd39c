#include "offload/store/store_search.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "kernels/base/error.h"
#include "offload/store/store_files.h"
#include "offload/store/superblock.h"

namespace strata::store {

namespace {

namespace fs = std::filesystem;

// Of the file of directory 0, where the superblocks are.
void look_at_superblocks(FoundStore& found) {
  std::vector<std::byte> bytes(2 * kSuperblockBytes);
  bytes.resize(static_cast<std::size_t>(found.file.read(kHeaderBytes, bytes)));
  std::optional<Superblock> newest;
  try {
    for (const int copy : {0, 1}) {
      const auto superblock = decode_superblock(
          std::span(bytes).subspan(static_cast<std::size_t>(copy * kSuperblockBytes)), copy);
      if (superblock && (!newest || superblock->sequence > newest->sequence)) newest = superblock;
    }
  } catch (const FormatError&) {
    return;  // unknown
  }
  const bool has_state = newest && newest->kind != SuperblockKind::started;
  found.holding = has_state ? Holding::state : Holding::nothing;
  if (has_state) found.step = newest->step;
}

FoundStore look_at(const std::string& path) {
  FoundStore found{StoreState::idle, io::FoundVolumeFile(path), {}, "", Holding::unknown, 0};
  std::vector<std::byte> bytes(kHeaderBytes);
  bytes.resize(static_cast<std::size_t>(found.file.read(0, bytes)));
  try {
    found.header = decode_header(bytes);
    if (found.header->directory == 0) look_at_superblocks(found);
  } catch (const VersionError& error) {
    found.problem = error.what();
    found.state = StoreState::other_version;
  } catch (const FormatError& error) {
    found.problem = error.what();
    found.state = StoreState::damaged;
  }
  if (found.file.in_use()) found.state = StoreState::in_use;
  return found;
}

// In order.
std::vector<std::string> store_paths(const std::string& directory) {
  std::vector<std::string> paths;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      if (!is_store_file_name(entry.path().filename().string())) continue;
      std::error_code ignored;  // gone meanwhile
      if (fs::is_regular_file(entry.symlink_status(ignored)))
        paths.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw_error<IoError>("list {}: {}", directory, error.code().message());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::optional<FoundStore> look_at_store(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0 && errno == EACCES) return std::nullopt;
  try {
    return look_at(path);
  } catch (const IoError&) {
    if (fs::exists(path)) throw;
    return std::nullopt;
  }
}

std::vector<FoundStore> find_stores(const std::string& directory) {
  std::vector<FoundStore> stores;
  for (const std::string& path : store_paths(directory)) {
    if (auto found = look_at_store(path)) stores.push_back(std::move(*found));
  }
  return stores;
}

}  // namespace strata::store
