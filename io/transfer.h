// Transfer: one request on its way through the kernel, as a state machine of its own.
//
//   unfinished(done < bytes) ──on_result──▶ resume | retry   (submit rest() again)
//        └────────────────────on_result──▶ done | failed     (over)
//
// It does no I/O and knows no ring: whoever owns it submits rest() and hands it the kernel's
// result. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/error.h"

namespace strata::io {

// flush: everything written and completed before becomes durable; it has no bytes.
enum class Operation : std::uint8_t { read, write, flush };

constexpr const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::read:
      return "read";
    case Operation::write:
      return "write";
    case Operation::flush:
      return "flush";
  }
  return "";
}

// "write PATH at offset O, N bytes: REASON"
IoError request_error(Operation operation, std::string_view path, std::int64_t offset_bytes,
                      std::int64_t bytes, std::string_view reason);

// "No space left on device (errno 28)"
std::string errno_text(int error_number);

class Transfer {
 public:
  enum class Next : std::uint8_t {
    resume,  // a part was transferred: submit rest()
    retry,   // nothing was (EINTR, EAGAIN): submit rest() again, after a pause
    done,
    failed,  // failure() says why
  };

  struct Piece {
    Operation operation;
    std::int64_t offset_bytes;
    AlignedSpan span;
  };

  Transfer() = default;
  // Offset, length and address of `span` are multiples of `alignment_bytes`.
  Transfer(Operation operation, std::int64_t offset_bytes, AlignedSpan span,
           std::int64_t alignment_bytes);

  Operation operation() const { return operation_; }
  std::int64_t bytes() const { return span_.bytes(); }
  AlignedSpan span() const { return span_; }

  // What is still to be transferred.
  Piece rest() const;

  // `result`: bytes transferred of rest(), or minus an errno, as a completion reports it. A short
  // transfer is continued from the last aligned position; one that moves nothing past it met the
  // end of the file or device and is a failure.
  [[nodiscard]] Next on_result(std::int64_t result);

  // The error after `failed`.
  IoError failure(std::string_view path) const;
  // The error of the whole request for a reason that on_result() never saw.
  IoError failure(std::string_view path, std::string_view reason) const;

 private:
  Operation operation_ = Operation::read;
  int error_number_ = 0;  // 0 after `failed`: the end of the file
  std::int64_t offset_bytes_ = 0;
  std::int64_t alignment_bytes_ = 1;
  std::int64_t done_bytes_ = 0;
  AlignedSpan span_;
};

}  // namespace strata::io
