// Engine: how requests on one file reach the kernel and come back: io_uring (uring_engine.h), a
// pool of threads (thread_engine.h), or in tests one that fails on purpose (fault_engine.h).
//
// EngineStorage, the only user, splits transfers, bounds what is in flight, continues short
// transfers and times out; an engine does none of that. Every accepted request is answered by
// exactly one completion, in any order.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

  virtual ~Engine() = default;

  // Starts `requests`, in one call to the kernel where the engine can. Returns 0, or the errno with
  // which it was refused: then the requests that had not been started never will be, nor will
  // anything after them. Thread-safe, allocates nothing.
  [[nodiscard]] virtual int submit(std::span<const Request> requests) = 0;

  // The next completion, or nothing after about `timeout`. Called by one thread.
  // Throws IoError when the engine itself is broken.
  virtual std::optional<Completion> wait(std::chrono::nanoseconds timeout) = 0;

  // Tells the kernel of memory that requests will lie in, so that it maps it once. A hint: where
  // the system refuses (RLIMIT_MEMLOCK), requests work all the same. Not while requests are in
  // flight.
  virtual void register_memory(AlignedSpan /*memory*/) {}

  virtual std::string description() const = 0;  // "io_uring, 64 in flight, registered file"
};

}  // namespace strata::io
