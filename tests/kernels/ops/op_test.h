// A cpu device with one stream, and matrices on it, for tests of ops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/view.h"

namespace strata::ops {

class OpTest {
 public:
  explicit OpTest(int threads, const CpuOpsLimits& limits, Dtype arithmetic = Dtype::bf16,
                  std::vector<MatmulChoice> choices = {}, Isa isa = best_isa())
      : host_budget_("host memory", 256 * kMiB),
        workers_(threads),
        device_({.device_memory_bytes = 256 * kMiB}, host_budget_, workers_, failure_, nullptr) {
    attach_cpu_ops(device_, isa, limits, arithmetic, std::move(choices));
    stream_ = device_.make_stream("compute");
  }

  CpuDevice& device() { return device_; }
  Stream& stream() { return *stream_; }

 private:
  Budget host_budget_;
  WorkerSet workers_;
  FailureLatch failure_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
};

// A (rows, cols) view of device memory with `gap` elements between the rows.
class DeviceMatrix {
 public:
  DeviceMatrix(OpTest& test, Dtype dtype, std::int64_t rows, std::int64_t cols,
               std::int64_t gap = 0)
      : test_(test),
        buffer_(test.device().allocate("test", rows * (cols + gap) * bytes_of(dtype))),
        view_{buffer_.data(), dtype, rows, cols, cols + gap} {
    test.stream().fill_zero(buffer_.data(), buffer_.bytes());
  }
  DeviceMatrix(OpTest& test, Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
               const std::vector<float>& values)
      : DeviceMatrix(test, dtype, rows, cols, gap) {
    set(values);
  }

  const Matrix& view() const { return view_; }
  float* f32() const { return static_cast<float*>(view_.data); }

  // `values` are dense; rounded to nearest even for bf16.
  void set(const std::vector<float>& values) {
    std::vector<std::byte> bytes = raw();
    for (std::int64_t row = 0; row < view_.rows; ++row) {
      for (std::int64_t col = 0; col < view_.cols; ++col) {
        const std::int64_t to = row * view_.stride + col;
        const float value = values[static_cast<std::size_t>(row * view_.cols + col)];
        if (view_.dtype == Dtype::f32) {
          reinterpret_cast<float*>(bytes.data())[to] = value;
        } else {
          reinterpret_cast<bf16*>(bytes.data())[to] = to_bf16_nearest_even(value);
        }
      }
    }
    test_.stream().copy(buffer_.data(), bytes.data(), static_cast<std::int64_t>(bytes.size()));
    test_.stream().synchronize();
  }

  // Dense.
  std::vector<float> get() {
    const std::vector<std::byte> bytes = raw();
    std::vector<float> values;
    for (std::int64_t row = 0; row < view_.rows; ++row) {
      for (std::int64_t col = 0; col < view_.cols; ++col) {
        const std::int64_t from = row * view_.stride + col;
        values.push_back(view_.dtype == Dtype::f32
                             ? reinterpret_cast<const float*>(bytes.data())[from]
                             : to_float(reinterpret_cast<const bf16*>(bytes.data())[from]));
      }
    }
    return values;
  }

  // Every byte, those between the rows too, once the stream has run.
  std::vector<std::byte> raw() {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(view_.rows * view_.stride * bytes_of(view_.dtype)));
    test_.stream().copy(bytes.data(), buffer_.data(), static_cast<std::int64_t>(bytes.size()));
    test_.stream().synchronize();
    return bytes;
  }

 private:
  OpTest& test_;
  DeviceBuffer buffer_;
  Matrix view_;
};

// Uniform in [-1, 1), representable in `dtype`.
inline std::vector<float> random_values(Dtype dtype, std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = uniform(generator);
    if (dtype == Dtype::bf16) value = to_float(to_bf16_nearest_even(value));
  }
  return values;
}

}  // namespace strata::ops
