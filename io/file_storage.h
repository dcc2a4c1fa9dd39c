// FileStorage: a Storage in one file of a directory, opened O_DIRECT, through io_uring.
//
// One ring per storage; a submitter takes a slot and submits under a lock; one reaper thread blocks
// for completions and continues short transfers. Slots are bounded by queue_depth. No SQPOLL and no
// IOPOLL (they cost a core and gain nothing on small machines).
//
// The file is scratch: it is created and unlinked at once, so nothing is left behind however the
// process ends, and its blocks are preallocated, so that a full disk is refused here and not in
// mid-step.
//
// Not here yet: several directories, checksums, a thread-pool engine, files that outlive the run.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "io/storage.h"

namespace strata::io {

struct FileStorageOptions {
  std::string directory;
  std::int64_t capacity_bytes = 0;
  int queue_depth = 64;
  std::int64_t request_bytes_max = 1 << 20;  // longer requests are split into this
  std::chrono::milliseconds timeout{30000};
};

// Throws ConfigError when the directory is missing, not a directory, read-only or has less free
// space than capacity_bytes (saying how much it has), IoError when the system refuses something
// else. `tracer` may be null.
std::unique_ptr<Storage> open_file_storage(const FileStorageOptions& options, Tracer* tracer);

// The same checks of `directory` without creating anything that outlives the call; returns the free
// bytes.
std::int64_t check_storage_directory(const std::string& directory, std::int64_t needed_bytes);

}  // namespace strata::io
