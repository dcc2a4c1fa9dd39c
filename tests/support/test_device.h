// TestDevice: a small device with one stream and the ops attached, and DeviceMatrix, a matrix in
// its memory. Uploads and reads wait for the stream, so that a test reads like plain code. It is a
// cpu device, and with STRATA_TEST_ON_CUDA a cuda device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/ops/view.h"
#ifdef STRATA_TEST_ON_CUDA
#include "tests/support/cuda_test_device.h"
#else
#include "tests/support/cpu_test_device.h"
#endif

namespace strata::testing {

// Uniform in [centre - spread, centre + spread), then rounded to `dtype`.
inline std::vector<float> random_values(Dtype dtype, std::int64_t count, unsigned seed,
                                        float centre = 0, float spread = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(centre - spread, centre + spread);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = uniform(generator);
    if (dtype == Dtype::bf16) value = to_float(to_bf16_nearest_even(value));
  }
  return values;
}

class TestDevice : public DeviceOfTests {
 public:
  using DeviceOfTests::DeviceOfTests;

  Stream& stream() { return *stream_; }

  DeviceBuffer allocate(std::int64_t bytes) { return device().allocate("test", bytes); }

  template <std::ranges::contiguous_range Values>
  DeviceBuffer upload(const Values& values) {
    const std::span bytes = std::as_bytes(std::span(values));
    DeviceBuffer buffer = allocate(std::ssize(bytes));
    const PinnedBuffer pinned = device().allocate_pinned("test", std::ssize(bytes));
    std::ranges::copy(bytes, pinned.data());
    stream_->copy(buffer.data(), pinned.data(), std::ssize(bytes));
    stream_->synchronize();
    return buffer;
  }
  // Rounded to `dtype`, to nearest even.
  DeviceBuffer upload(std::span<const float> values, Dtype dtype) {
    if (dtype == Dtype::f32) return upload(values);
    std::vector<bf16> rounded(values.size());
    std::ranges::transform(values, rounded.begin(), to_bf16_nearest_even);
    return upload(rounded);
  }

  template <typename T>
  std::vector<T> read(const void* device, std::int64_t elements) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
    const PinnedBuffer pinned = this->device().allocate_pinned("test", bytes);
    stream_->copy(pinned.data(), device, bytes);
    stream_->synchronize();
    return {pinned.as<T>(), pinned.as<T>() + elements};
  }
  // Widened from `dtype`.
  std::vector<float> read(const void* device, std::int64_t elements, Dtype dtype) {
    if (dtype == Dtype::f32) return read<float>(device, elements);
    const std::vector<bf16> stored = read<bf16>(device, elements);
    std::vector<float> values(stored.size());
    std::ranges::transform(stored, values.begin(), to_float);
    return values;
  }

  // `bytes` to use, then a pattern that expect_guard() finds unchanged.
  DeviceBuffer allocate_guarded(std::int64_t bytes) {
    return upload(std::vector(static_cast<std::size_t>(bytes + kGuardBytes), kGuard));
  }
  void expect_guard(const DeviceBuffer& buffer, std::int64_t bytes) {
    const auto guard = read<std::byte>(buffer.data() + bytes, kGuardBytes);
    EXPECT_TRUE(std::ranges::all_of(guard, [](std::byte b) { return b == kGuard; }));
  }

 private:
  static constexpr std::int64_t kGuardBytes = 4096;
  static constexpr std::byte kGuard{0xA5};

  std::unique_ptr<Stream> stream_ = device().make_stream("test");
};

// A (rows, cols) view of device memory of its own, whose rows lie `gap` elements apart. The gaps
// hold a known value.
class DeviceMatrix {
 public:
  // Zeros.
  DeviceMatrix(TestDevice& device, Dtype dtype, std::int64_t rows, std::int64_t cols,
               std::int64_t gap = 0)
      : DeviceMatrix(device, dtype, rows, cols, gap,
                     std::vector<float>(static_cast<std::size_t>(rows * cols))) {}
  // `values`, row by row, are rounded to the dtype, to nearest even.
  DeviceMatrix(TestDevice& device, Dtype dtype, std::int64_t rows, std::int64_t cols,
               std::int64_t gap, const std::vector<float>& values)
      : device_(device), view_{nullptr, dtype, rows, cols, cols + gap} {
    std::vector<float> stored(static_cast<std::size_t>(rows * view_.stride), kGapValue);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(values.begin() + row * cols, cols, stored.begin() + row * view_.stride);
    }
    buffer_ = device.upload(stored, dtype);
    view_.data = buffer_.data();
  }

  const ops::Matrix& view() const { return view_; }
  float* f32() const { return static_cast<float*>(view_.data); }

  // Row by row; fails the test when a gap was written.
  std::vector<float> get() const {
    const std::vector<float> stored =
        device_.read(view_.data, view_.rows * view_.stride, view_.dtype);
    std::vector<float> values;
    for (auto row = stored.begin(); row != stored.end(); row += view_.stride) {
      values.insert(values.end(), row, row + view_.cols);
      EXPECT_TRUE(std::all_of(row + view_.cols, row + view_.stride,
                              [](float value) { return value == kGapValue; }))
          << "row " << (row - stored.begin()) / view_.stride << " was written past its end";
    }
    return values;
  }
  // The same, for arithmetic in double precision.
  std::vector<double> get_f64() const {
    const std::vector<float> values = get();
    return {values.begin(), values.end()};
  }

  // Gaps too.
  std::vector<std::byte> bytes() const {
    return device_.read<std::byte>(view_.data, view_.rows * view_.stride * bytes_of(view_.dtype));
  }

 private:
  static constexpr float kGapValue = -77.0f;  // exact in bf16

  TestDevice& device_;
  DeviceBuffer buffer_;
  ops::Matrix view_;
};

}  // namespace strata::testing
