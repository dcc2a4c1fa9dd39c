#include "kernels/base/aligned_buffer.h"

#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/page_memory.h"

namespace strata {

AlignedSpan AlignedSpan::sub(std::int64_t offset_bytes, std::int64_t bytes) const {
  STRATA_CHECK(offset_bytes >= 0 && bytes >= 0 && offset_bytes <= bytes_ - bytes,
               "[{}, +{}) of {} bytes", offset_bytes, bytes, bytes_);
  return {data_ + offset_bytes, bytes};
}

AlignedBuffer::AlignedBuffer(Budget& budget, std::string tag, std::int64_t bytes) {
  STRATA_CHECK(bytes >= 0, "{}: {} bytes", tag, bytes);
  const std::int64_t rounded_bytes = round_up(bytes, kPageBytes);
  reservation_ = budget.reserve(tag, rounded_bytes);
  if (rounded_bytes == 0) return;
  data_ = map_pages(tag, rounded_bytes);
  bytes_ = rounded_bytes;
  try {
    populate_pages(tag, data_, bytes_);
  } catch (...) {
    release();
    throw;
  }
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : reservation_(std::move(other.reservation_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this != &other) {
    release();
    reservation_ = std::move(other.reservation_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

AlignedBuffer::~AlignedBuffer() { release(); }

void AlignedBuffer::release() noexcept {
  unmap_pages(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  reservation_ = Reservation();
}

}  // namespace strata
