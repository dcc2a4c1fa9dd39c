#include "io/transfer.h"

#include <cerrno>
#include <system_error>

namespace strata::io {

IoError request_error(Operation operation, std::string_view path, std::int64_t offset_bytes,
                      std::int64_t bytes, std::string_view reason) {
  return IoError(fmt::format("{} {} at offset {}, {} bytes: {}", name_of(operation), path,
                             offset_bytes, bytes, reason));
}

std::string errno_text(int error_number) {
  return fmt::format("{} (errno {})", std::generic_category().message(error_number), error_number);
}

Transfer::Transfer(Operation operation, std::int64_t offset_bytes, AlignedSpan span,
                   std::int64_t alignment_bytes)
    : operation_(operation),
      offset_bytes_(offset_bytes),
      alignment_bytes_(alignment_bytes),
      span_(span) {}

Transfer::Piece Transfer::rest() const {
  return {operation_, offset_bytes_ + done_bytes_,
          span_.sub(done_bytes_, span_.bytes() - done_bytes_)};
}

Transfer::Next Transfer::on_result(std::int64_t result) {
  if (operation_ == Operation::flush && result == 0) return Next::done;
  if (result == -EINTR || result == -EAGAIN) return Next::retry;
  if (result < 0) {
    error_number_ = static_cast<int>(-result);
    return Next::failed;
  }
  STRATA_CHECK(result <= bytes() - done_bytes_, "a completion of {} bytes for a request of {}",
               result, bytes() - done_bytes_);
  if (result == bytes() - done_bytes_) {
    done_bytes_ = bytes();
    return Next::done;
  }
  const std::int64_t aligned_bytes = result / alignment_bytes_ * alignment_bytes_;
  if (aligned_bytes == 0) return Next::failed;
  done_bytes_ += aligned_bytes;
  return Next::resume;
}

IoError Transfer::failure(std::string_view path) const {
  if (error_number_ != 0) return failure(path, errno_text(error_number_));
  return failure(path,
                 fmt::format("nothing after the first {} bytes: the file or its device ends there; "
                             "was it truncated?",
                             done_bytes_));
}

IoError Transfer::failure(std::string_view path, std::string_view reason) const {
  return request_error(operation_, path, offset_bytes_, bytes(), reason);
}

}  // namespace strata::io
