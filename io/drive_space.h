// What is free on the file systems of storage directories, and what a full one says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/direct_file.h"

namespace strata::io {

// Of the file system that holds `file`, for this user.
std::int64_t free_bytes_of(const DirectFile& file);

// "storage directory D: N are needed and M are free; …"
[[noreturn]] void throw_full(const std::string& directory, std::int64_t needed_bytes,
                             std::int64_t free_bytes);

struct DriveSpace {
  std::string directory;
  std::int64_t free_bytes = 0;
  // The first directory in the list that is on the same file system, perhaps this one: they share
  // what is free.
  int file_system = 0;
};

// Creates and removes an unnamed file in each directory. Throws ConfigError when one is missing,
// not a directory, read-only, not writable or without direct I/O; IoError when the system refuses
// something else.
std::vector<DriveSpace> look_at_drives(std::span<const std::string> directories);

// Throws ConfigError, with bytes needed and free per directory, when they have too little together.
void check_total_free(std::span<const DriveSpace> drives, std::int64_t needed_bytes);

}  // namespace strata::io
