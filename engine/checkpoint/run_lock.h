// RunLock: one process at a time runs in a run's folder. It holds a lock (flock) on the file `lock`
// there, whose text says which process on which host that is, and which the system frees however
// the process ends.
#pragma once

#include <string>

#include "io/file_descriptor.h"

namespace strata::engine {

inline constexpr const char* kRunLockFile = "lock";

class RunLock {
 public:
  // The folder exists. Throws ConfigError naming the process that has the lock, or IoError where
  // none can be had.
  explicit RunLock(const std::string& run_folder);

  // Deletes the file, of a folder that is given up. The lock is held until the object's end.
  void remove_file() noexcept;

 private:
  std::string path_;
  io::FileDescriptor file_;
};

}  // namespace strata::engine
