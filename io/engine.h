// Engine: how requests on one file reach the kernel and come back: io_uring (uring_engine.h), a
// pool of threads (thread_engine.h), or in tests one that fails on purpose (fault_engine.h).
//
// EngineStorage, the only user, splits transfers, bounds what is in flight, continues short
// transfers and times out; an engine does none of that. Every accepted request is answered by
// exactly one completion, in any order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/transfer.h"

namespace strata::io {

class Engine {
 public:
  struct Request {
    Transfer::Piece piece;
    std::uint64_t tag = 0;
  };
  struct Completion {
    std::uint64_t tag = 0;
    std::int32_t result = 0;  // bytes, or minus an errno
  };
  struct Submission {
    std::size_t accepted = 0;  // of the requests, the first so many: each will be answered
    int error_number = 0;      // why not all: the others, and all later ones, never start
  };

  // Waits for what is in flight, but no longer than kLeaveTimeout: a drive may be stuck.
  static constexpr std::chrono::seconds kLeaveTimeout{1};
  virtual ~Engine() = default;

  // Starts `requests`, in one call to the kernel where the engine can. Thread-safe, allocates
  // nothing.
  [[nodiscard]] virtual Submission submit(std::span<const Request> requests) = 0;

  // Waits until a request is answered, for about `timeout` at most, and stores what is there, as
  // far as it fits, in `completions`; returns how many. Called by one thread.
  // Throws IoError when the engine itself is broken.
  [[nodiscard]] virtual std::size_t wait(std::span<Completion> completions,
                                         std::chrono::nanoseconds timeout) = 0;

  // Tells the kernel of memory that requests will lie in, so that it maps it once. A hint: where
  // the system refuses (RLIMIT_MEMLOCK), requests work all the same. Not while requests are in
  // flight.
  virtual void register_memory(AlignedSpan /*memory*/) {}
  // The same span as was registered. Not while requests in it are in flight.
  virtual void unregister_memory(AlignedSpan /*memory*/) {}

  virtual std::string description() const = 0;  // "io_uring, registered file"
};

}  // namespace strata::io
