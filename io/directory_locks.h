// DirectoryLocks: whoever reserves space in several directories does it alone, so that ranks and
// runs that start at once neither deal out the same free space nor disturb each other's
// measurement of a drive.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace strata::io {

// Held while it lives. Directories are locked in one order everywhere; one that cannot be opened
// or whose file system has no such locks is left out. Advisory: for other holders alone.
class DirectoryLocks {
 public:
  // Throws IoError when another process has held one for longer than `timeout`.
  DirectoryLocks(std::span<const std::string> directories, std::chrono::milliseconds timeout);

 private:
  std::vector<FileDescriptor> locked_;
};

}  // namespace strata::io
