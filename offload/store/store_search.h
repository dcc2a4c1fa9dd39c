// Which stores lie in a directory, and whether anybody uses them. For `strata gc`, and for runs
// that want to tell of what earlier ones left behind.
//
//   file named like a store ──locked by a process──▶ in_use
//                           └─unlocked──▶ stale, or, when its header cannot be read, damaged, or
//                                         of another version
//
// Files that this user may not read are other users', and left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/volume_file.h"
#include "offload/store/file_header.h"

namespace strata::store {

enum class StoreState : std::uint8_t { in_use, stale, damaged, other_version };
const char* name_of(StoreState state);  // "in use"

struct FoundStore {
  StoreState state;
  io::FoundVolumeFile file;          // unless in use, locked by us as long as it lives
  std::optional<FileHeader> header;  // absent: damaged, or not written yet
  std::string problem;               // of one without a header
};

// By name. Changes nothing. Throws IoError when the directory or a file of it cannot be read.
std::vector<FoundStore> find_stores(const std::string& directory);

// What nobody uses any more and this program can tell.
struct LeftOver {
  int stale = 0;
  int damaged = 0;         // `strata gc` removes these with --force only
  std::int64_t bytes = 0;  // on disk, of both
};
LeftOver left_over(const std::string& directory);

}  // namespace strata::store
