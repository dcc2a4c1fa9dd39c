// A unit's flat buffer on the device, seen as its tensors: weights (read) or gradients (written).
// Views only: the unit's spec and the buffer must outlive them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/device.h"
#include "kernels/ops/view.h"
#include "models/model_units.h"
#include "models/unit_spec.h"

namespace strata::models {

// Ops take read-only operands as Matrix too, which is not const.
inline ops::Matrix read_only(const void* data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return ops::Matrix::dense(const_cast<void*>(data), dtype, rows, cols);
}

// The rows of a run of matrices with the same columns.
inline std::int64_t rows_of(const UnitSpec& unit, TensorRun run) {
  std::int64_t rows = 0;
  for (std::size_t i = run.first; i < run.first + run.count; ++i) rows += unit.tensors[i].rows;
  return rows;
}

class ResidentWeights {
 public:
  ResidentWeights(const UnitSpec& unit, Dtype dtype, const std::byte* data)
      : unit_(unit), dtype_(dtype), data_(data) {}

  ops::Matrix matrix(TensorRun run) const {
    return read_only(vector(run), dtype_, rows_of(unit_, run), unit_.tensors[run.first].cols);
  }
  // Null: the model has none.
  const void* vector(TensorRun run) const {
    if (!run.present()) return nullptr;
    return data_ + unit_.tensors[run.first].offset_elements * bytes_of(dtype_);
  }

 private:
  const UnitSpec& unit_;
  Dtype dtype_;
  const std::byte* data_;
};

class ResidentGradients {
 public:
  ResidentGradients(const UnitSpec& unit, float* data) : unit_(unit), data_(data) {}

  ops::Matrix matrix(TensorRun run) const {
    return ops::Matrix::dense(vector(run), Dtype::f32, rows_of(unit_, run),
                              unit_.tensors[run.first].cols);
  }
  float* vector(TensorRun run) const {
    return run.present() ? data_ + unit_.tensors[run.first].offset_elements : nullptr;
  }

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
