// AlignedBuffer: host memory that direct I/O accepts.
//
// Guarantee: starts on a page boundary, its length is a whole number of pages, zero-filled, charged
// to the host budget while it lives. Backed by mmap with huge pages advised; pages are touched at
// construction, so what the budget says is what the process holds. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/base/budget.h"

namespace strata {

inline constexpr std::int64_t kPageBytes = 4096;

// A piece of an AlignedBuffer, the only thing that direct I/O takes: page memory that its owner
// keeps alive and charged. Made by AlignedBuffer::span() alone.
class AlignedSpan {
 public:
  AlignedSpan() = default;
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  // Throws nothing; out of range is a programmer error.
  AlignedSpan sub(std::int64_t offset_bytes, std::int64_t bytes) const;

 private:
  friend class AlignedBuffer;
  AlignedSpan(std::byte* data, std::int64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `bytes` is rounded up to whole pages, and the rounded size is charged.
  // Throws OutOfBudget (budget) or Error (the system has no memory).
  AlignedBuffer(Budget& budget, std::string tag, std::int64_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  AlignedSpan span() const { return {data_, bytes_}; }
  AlignedSpan span(std::int64_t offset_bytes, std::int64_t bytes) const {
    return span().sub(offset_bytes, bytes);
  }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void release() noexcept;
  Reservation reservation_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace strata
