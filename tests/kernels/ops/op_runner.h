// A CPU device with one stream, for tests of single ops, and matrices in its memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// Largest relative error of one rounding to nearest.
inline constexpr double kF32Rounding = 0x1p-24;
inline constexpr double kBf16Rounding = 0x1p-8;

inline double rounding_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? kBf16Rounding : kF32Rounding;
}

struct Configuration {
  Isa isa;
  int threads;
};

// Every instruction set of this machine with 1, 2 and 3 workers.
inline std::vector<Configuration> all_configurations() {
  std::vector<Configuration> configurations;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (!isa_supported(isa)) continue;
    for (const int threads : {1, 2, 3}) configurations.push_back({isa, threads});
  }
  return configurations;
}

class OpRunner {
 public:
  explicit OpRunner(Configuration configuration = {best_isa(), 2})
      : workers_(configuration.threads),
        device_({.device_memory_bytes = 32 * kMiB}, host_budget_, workers_, failure_, nullptr),
        stream_(device_.make_stream("test")) {
    cpu::attach_op_state(device_, std::make_shared<cpu::OpState>(cpu::OpState{configuration.isa}));
  }

  Stream& stream() { return *stream_; }

  template <typename T>
  DeviceBuffer upload(const std::vector<T>& values) {
    DeviceBuffer buffer = device_.allocate("test", bytes_in(values));
    PinnedBuffer staging = device_.allocate_pinned("test", bytes_in(values));
    std::memcpy(staging.data(), values.data(), static_cast<std::size_t>(bytes_in(values)));
    stream_->copy(buffer.data(), staging.data(), bytes_in(values));
    stream_->synchronize();
    return buffer;
  }

  template <typename T>
  std::vector<T> download(const DeviceBuffer& buffer, std::int64_t elements) {
    std::vector<T> values(static_cast<std::size_t>(elements));
    PinnedBuffer staging = device_.allocate_pinned("test", bytes_in(values));
    stream_->copy(staging.data(), buffer.data(), bytes_in(values));
    stream_->synchronize();
    std::memcpy(values.data(), staging.data(), static_cast<std::size_t>(bytes_in(values)));
    return values;
  }

 private:
  template <typename T>
  static std::int64_t bytes_in(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(T));
  }

  Budget host_budget_{"host memory", 64 * kMiB};
  FailureLatch failure_;
  WorkerSet workers_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
};

// A matrix in device memory whose rows lie `gap` elements apart. The gaps hold a known value.
class DeviceMatrix {
 public:
  // `values`, row by row, are rounded to the dtype.
  DeviceMatrix(OpRunner& runner, Dtype dtype, std::int64_t rows, std::int64_t cols,
               std::int64_t gap, const std::vector<double>& values)
      : runner_(runner), dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + gap) {
    std::vector<float> stored(static_cast<std::size_t>(rows * stride_), kGapValue);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(values.begin() + row * cols, cols, stored.begin() + row * stride_);
    }
    if (dtype == Dtype::f32) {
      buffer_ = runner.upload(stored);
    } else {
      std::vector<bf16> rounded(stored.size());
      std::ranges::transform(stored, rounded.begin(), to_bf16_nearest_even);
      buffer_ = runner.upload(rounded);
    }
  }

  Matrix view() const { return {buffer_.data(), dtype_, rows_, cols_, stride_}; }
  float* f32() const { return reinterpret_cast<float*>(buffer_.data()); }
  const std::int32_t* i32() const { return reinterpret_cast<std::int32_t*>(buffer_.data()); }

  std::vector<std::byte> bytes() const {
    return runner_.download<std::byte>(buffer_, rows_ * stride_ * bytes_of(dtype_));
  }

  // Row by row; fails the test if a gap was written.
  std::vector<double> values() const {
    const std::vector<float> stored = stored_values();
    std::vector<double> result;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t col = 0; col < stride_; ++col) {
        const float value = stored[static_cast<std::size_t>(row * stride_ + col)];
        if (col < cols_) {
          result.push_back(value);
        } else {
          EXPECT_EQ(value, kGapValue) << "row " << row << " was written past its end";
        }
      }
    }
    return result;
  }

 private:
  static constexpr float kGapValue = -77.0f;  // exact in bf16

  std::vector<float> stored_values() const {
    if (dtype_ == Dtype::f32) return runner_.download<float>(buffer_, rows_ * stride_);
    std::vector<float> widened;
    for (const bf16 value : runner_.download<bf16>(buffer_, rows_ * stride_)) {
      widened.push_back(to_float(value));
    }
    return widened;
  }

  OpRunner& runner_;
  Dtype dtype_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_;
  DeviceBuffer buffer_;
};

inline std::vector<double> random_values(std::uint32_t seed, std::int64_t count, double mean = 0,
                                         double deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(generator);
  return values;
}

// `outputs` runs an op on a runner and returns its results; they must be the same bits everywhere.
using Outputs = std::vector<std::vector<std::byte>>;
inline void expect_same_bits_everywhere(const std::function<Outputs(OpRunner&)>& outputs) {
  Outputs first;
  for (const Configuration configuration : all_configurations()) {
    OpRunner runner(configuration);
    const Outputs here = outputs(runner);
    if (first.empty()) first = here;
    EXPECT_TRUE(here == first) << name_of(configuration.isa) << ", " << configuration.threads
                               << " workers";
  }
}

}  // namespace strata::ops
