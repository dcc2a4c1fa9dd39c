// Ring: what RingStorage asks of io_uring, small enough to be replaced in a test by one that
// answers with short transfers, errors, or never.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "io/transfer.h"

namespace strata::io {

class Ring {
 public:
  struct Completion {
    std::uint32_t tag;
    std::int32_t result;  // bytes, or minus an errno
  };

  virtual ~Ring() = default;

  // Hands `piece` to the kernel; its completion carries `tag`. Returns 0, or the errno with which
  // the kernel refused it: then it was not started, and neither will anything after it be.
  // Thread-safe, allocates nothing.
  [[nodiscard]] virtual int submit(const Transfer::Piece& piece, std::uint32_t tag) = 0;

  // The next completion, or nothing after about `timeout`. Called by one thread.
  // Throws IoError when the ring itself is broken.
  virtual std::optional<Completion> wait(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace strata::io
