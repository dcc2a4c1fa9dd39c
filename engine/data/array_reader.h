// An array in a file, element by element, through a window of a few KiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/data/input_file.h"

namespace strata::engine {

template <typename T>
class ArrayReader {
 public:
  // `count` elements from `offset` on, in bytes; `file` must outlive the reader.
  ArrayReader(const InputFile& file, std::int64_t offset, std::int64_t count)
      : file_(file), offset_(offset), left_(count) {}

  // At most `count` times. Throws IoError.
  T next() {
    if (used_ == filled_) refill();
    return window_[used_++];
  }

 private:
  void refill() {
    filled_ = std::min(static_cast<std::size_t>(left_), window_.size());
    used_ = 0;
    file_.read(offset_, std::as_writable_bytes(std::span(window_).first(filled_)));
    offset_ += static_cast<std::int64_t>(filled_ * sizeof(T));
    left_ -= static_cast<std::int64_t>(filled_);
  }

  const InputFile& file_;
  std::int64_t offset_;
  std::int64_t left_;
  std::array<T, 1024> window_;
  std::size_t used_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace strata::engine
