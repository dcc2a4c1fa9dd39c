// Which stores lie in a directory, whether a run goes on in them, and whether one could. For
// `strata gc`, `inspect` and `verify`, and for runs that want to tell of what earlier ones left
// behind.
//
//   file named like a store ──locked by a run──▶ in_use
//                           └─not──▶ idle, or, when its header cannot be read, damaged, or of
//                                    another version
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

enum class StoreState : std::uint8_t { in_use, idle, damaged, other_version };

// What a run could go on from.
enum class Holding : std::uint8_t {
  nothing,  // nothing was committed, or a run without checkpoints was stopped in mid-step
  state,    // a commit, or a clean mark
  unknown,  // a superblock is damaged; or it is not in this file but in that of directory 0
};

struct FoundStore {
  StoreState state;
  io::FoundVolumeFile file;          // unless in use, no run can go on in it as long as this lives
  std::optional<FileHeader> header;  // absent: damaged, or not written yet
  std::string problem;               // of one without a header
  Holding holding = Holding::unknown;
  std::int64_t step = 0;  // of the state it holds
};

// Nothing when there is no such file, or it is another user's. Throws IoError when it cannot be
// read.
std::optional<FoundStore> look_at_store(const std::string& path);

// By name. Changes nothing. Throws IoError when the directory or a file of it cannot be read.
std::vector<FoundStore> find_stores(const std::string& directory);

}  // namespace strata::store
