// ThreadEngine: an Engine of threads that call pread, pwrite and fdatasync, for systems that forbid
// io_uring.
//
// Threads and the waiter sleep on condition variables. A request costs two switches of context
// where io_uring's costs one, so the number of threads stays small: 16 requests of a mebibyte each
// saturate a drive, and where requests are small the system calls are what limits.
//
//   thread:  sleeping ──submit──▶ in the kernel ──answered──▶ sleeping
//                └──destruction──▶ ended              (stuck at destruction: detached)
//
// Destruction drops what has not been started and waits for the rest, but not for ever: a thread
// that a stuck drive keeps in the kernel is left to itself, with a descriptor of its own.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/engine.h"

namespace strata::io {

class ThreadEngine final : public Engine {
 public:
  // At most `queue_depth` requests may be submitted and not yet returned by wait(). `path` is for
  // errors. Uses fewer threads where the system allows no more; throws IoError when it allows none,
  // or no second descriptor.
  ThreadEngine(int descriptor, const std::string& path, int queue_depth);
  ~ThreadEngine() override;
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  Submission submit(std::span<const Request> requests) override;
  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override;
  std::string description() const override;  // "16 threads"

 private:
  class Shared;  // with the threads, which may outlive the engine

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace strata::io
