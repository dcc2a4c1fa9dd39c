// What is free on the file systems of storage directories, reserving it and giving it back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/direct_file.h"

namespace strata::io {

// Of the file system that holds `file`, for this user.
std::int64_t free_bytes_of(const DirectFile& file);

// Reserves blocks for the file's first `bytes`, those that it lacks, so that a full disk is refused
// now and not in mid-step. Throws ConfigError, with both numbers, when that much is not free for
// this user or the file system cannot preallocate, IoError when the system refuses something else.
void preallocate(const DirectFile& file, std::int64_t bytes);

// Gives the blocks of a range back, where the file system can; the file keeps its length. Throws
// IoError when the system refuses for another reason.
void discard(const DirectFile& file, std::int64_t offset_bytes, std::int64_t bytes);

// What a directory shares its bandwidth with: equal for two partitions of one disk.
std::string drive_of(const std::string& directory);

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

// Throws ConfigError, with bytes needed and free per directory, when one has less than `each_bytes`
// or they have too little together.
void check_free(std::span<const DriveSpace> drives, std::int64_t each_bytes,
                std::int64_t needed_bytes);

}  // namespace strata::io
