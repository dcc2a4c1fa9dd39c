// Carver: hands out pieces of one buffer in order, each aligned to 256 bytes (what a DeviceBuffer
// is aligned to). Without a buffer it only adds up sizes, so one function describes a layout both
// to whoever reserves it and to whoever uses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/bytes.h"
#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::models {

class Carver {
 public:
  // Counts only: every piece is null.
  Carver() = default;
  explicit Carver(std::byte* base) : base_(base) {}

  std::byte* take(std::int64_t bytes) {
    std::byte* const piece = base_ == nullptr ? nullptr : base_ + taken_bytes_;
    taken_bytes_ += round_up(bytes, Device::kAlignmentBytes);
    return piece;
  }
  float* take_f32(std::int64_t elements) {
    return reinterpret_cast<float*>(take(elements * bytes_of(Dtype::f32)));
  }
  ops::Matrix take_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols) {
    return ops::Matrix::dense(take(rows * cols * bytes_of(dtype)), dtype, rows, cols);
  }

  std::int64_t taken_bytes() const { return taken_bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::int64_t taken_bytes_ = 0;
};

// A Layout is a struct of pieces, constructed from a Carver& and its sizes.
template <typename Layout, typename... Sizes>
std::int64_t layout_bytes(const Sizes&... sizes) {
  Carver carver;
  Layout(carver, sizes...);
  return carver.taken_bytes();
}
template <typename Layout, typename... Sizes>
Layout lay_out(std::byte* base, const Sizes&... sizes) {
  Carver carver(base);
  return Layout(carver, sizes...);
}

}  // namespace strata::models
