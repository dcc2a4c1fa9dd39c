// What this machine allows of io_uring, found by trying it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace strata::io {

struct UringSupport {
  // Why io_uring cannot be used here, with the errno, and what to do about it; both empty where it
  // can.
  std::string obstacle;  // "io_uring_setup: Operation not permitted (errno 1): a seccomp filter"
  std::string advice;    // "use a seccomp profile that permits io_uring"

  bool registers_files = false;
  bool registers_buffers = false;
  // Of memory that may be registered, over all of this user's processes.
  std::int64_t locked_bytes_max = std::numeric_limits<std::int64_t>::max();

  bool usable() const { return obstacle.empty(); }
};

UringSupport probe_uring();

// RLIMIT_MEMLOCK, or the largest number where it does not bind this process (CAP_IPC_LOCK).
std::int64_t locked_bytes_max();

}  // namespace strata::io
