// A unit's flat buffer on the device, seen as its tensors: weights (read) or gradients (written).
// Views only: the unit's spec and the buffer must outlive them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/device.h"
#include "kernels/ops/view.h"
#include "models/unit_spec.h"

namespace strata::models {

// Ops take read-only operands as Matrix too, which is not const.
inline ops::Matrix read_only(const void* data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return ops::Matrix::dense(const_cast<void*>(data), dtype, rows, cols);
}

class ResidentWeights {
 public:
  ResidentWeights(const UnitSpec& unit, Dtype dtype, const std::byte* data)
      : unit_(unit), dtype_(dtype), data_(data) {}

  ops::Matrix matrix(std::size_t tensor) const {
    const TensorSpec& spec = unit_.tensors[tensor];
    return read_only(vector(tensor), dtype_, spec.rows, spec.cols);
  }
  const void* vector(std::size_t tensor) const {
    return data_ + unit_.tensors[tensor].offset_elements * bytes_of(dtype_);
  }

 private:
  const UnitSpec& unit_;
  Dtype dtype_;
  const std::byte* data_;
};

class ResidentGradients {
 public:
  ResidentGradients(const UnitSpec& unit, float* data) : unit_(unit), data_(data) {}

  ops::Matrix matrix(std::size_t tensor) const {
    const TensorSpec& spec = unit_.tensors[tensor];
    return ops::Matrix::dense(vector(tensor), Dtype::f32, spec.rows, spec.cols);
  }
  float* vector(std::size_t tensor) const { return data_ + unit_.tensors[tensor].offset_elements; }

  // The gaps between tensors, which no op writes, must be zero wherever gradients are overwritten.
  void zero_gaps(Stream& stream) const {
    std::int64_t end = 0;
    for (const TensorSpec& tensor : unit_.tensors) {
      const std::int64_t gap = tensor.offset_elements - end;
      if (gap > 0) stream.fill_zero(data_ + end, gap * bytes_of(Dtype::f32));
      end = tensor.offset_elements + tensor.elements();
    }
  }

 private:
  const UnitSpec& unit_;
  float* data_;
};

}  // namespace strata::models
