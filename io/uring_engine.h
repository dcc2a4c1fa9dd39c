// UringEngine: an Engine of the kernel's io_uring over one file.
//
// The file is registered, which saves a reference count per request, and so is memory that
// register_memory() names, which saves mapping its pages per request. Either is only faster: where
// the system refuses, requests go without, and description() says so.
//
// Set-up flags that would be wrong here: SINGLE_ISSUER and DEFER_TASKRUN demand that one thread
// both submits and reaps, and with COOP_TASKRUN a completion would wait until the thread that
// submitted it next enters the kernel, which may be after a long matmul. SQPOLL and IOPOLL cost a
// core.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "io/engine.h"

namespace strata::io {

class UringEngine final : public Engine {
 public:
  // `descriptor` stays the caller's and must outlive the engine; `path` is for errors. At most
  // `queue_depth` requests may be in flight. A submission that the kernel has no memory for is
  // retried for `submit_timeout`. Throws IoError when io_uring is not available.
  UringEngine(int descriptor, std::string path, int queue_depth,
              std::chrono::milliseconds submit_timeout);
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  Submission submit(std::span<const Request> requests) override;
  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override;
  void register_memory(AlignedSpan memory) override;
  void unregister_memory(AlignedSpan memory) override;
  // "io_uring, registered file, 3 of 5 buffers registered: RLIMIT_MEMLOCK"
  std::string description() const override;

 private:
  // Memory with its place in the kernel's table of buffers.
  struct Region {
    AlignedSpan memory;
    int place;
  };

  void prepare(const Request& request);
  void prepare_transfer(io_uring_sqe* entry, const Transfer::Piece& piece) const;
  std::size_t enter(std::size_t prepared);
  void drain() noexcept;
  const Region* region_of(AlignedSpan span) const;  // null: not registered
  int register_region(AlignedSpan memory);          // an errno, or 0
  void forget_regions(AlignedSpan memory);          // those in it
  int update_table(int place, const iovec& memory);
  std::vector<Region>::const_iterator first_region_behind(const std::byte* data) const;

  const std::string path_;
  const std::chrono::milliseconds submit_timeout_;
  io_uring ring_{};
  int file_;  // its place in the table of registered files, or its descriptor
  bool file_registered_ = false;
  std::atomic<int> in_flight_{0};

  // Of the submission queue; the completion queue is the waiter's alone.
  mutable std::mutex submit_mutex_;
  int refused_errno_ = 0;        // kept: a refused entry stays in the queue and must never start
  std::vector<Region> regions_;  // by address
  bool has_table_ = false;
  std::vector<int> free_places_;  // in the table
  int regions_wanted_ = 0;
  int region_errno_ = 0;  // of the first that was refused
};

}  // namespace strata::io
