#include "io/directory_locks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <thread>
#include <utility>

#include "io/direct_file.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr std::chrono::milliseconds kPause{5};

}  // namespace

DirectoryLocks::DirectoryLocks(std::span<const std::string> directories,
                               std::chrono::milliseconds timeout) {
  std::map<std::pair<dev_t, ino_t>, std::pair<std::string, FileDescriptor>> in_order;
  for (const std::string& directory : directories) {
    FileDescriptor descriptor = open_file(directory, O_RDONLY | O_DIRECTORY);
    struct stat status;
    if (!descriptor.is_open() || fstat(descriptor.get(), &status) != 0) continue;
    in_order.try_emplace({status.st_dev, status.st_ino}, directory, std::move(descriptor));
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (auto& [identity, entry] : in_order) {
    auto& [directory, descriptor] = entry;
    int error;
    while ((error = flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno) == EWOULDBLOCK) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw_error<IoError>(
            "lock {}: another process has been reserving space there for {:.1f} s (--io-timeout)",
            directory, std::chrono::duration<double>(timeout).count());
      }
      std::this_thread::sleep_for(kPause);
    }
    if (error == 0) locked_.push_back(std::move(descriptor));
  }
}

}  // namespace strata::io
