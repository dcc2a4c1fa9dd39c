// TestDevice: a small CPU device with the ops attached and one stream, and the copies that tests
// need between vectors and device memory. Every call waits, so a test reads like plain code.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu_ops.h"

namespace strata::models {

inline std::vector<float> random_normals(std::int64_t elements, unsigned seed, float mean,
                                         float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<std::size_t>(elements));
  std::ranges::generate(values, [&] { return normal(generator); });
  return values;
}

class TestDevice {
 public:
  // `arithmetic`: of matmuls with bf16 operands.
  TestDevice(const ops::CpuOpsLimits& limits, Dtype arithmetic, int threads = 2)
      : workers_(threads),
        host_("host memory", 2 * kMemoryBytes),
        device_({.device_memory_bytes = kMemoryBytes}, host_, workers_, failure_, nullptr),
        stream_(device_.make_stream("test")),
        staging_(device_.allocate_pinned("staging", kStagingBytes)) {
    ops::attach_cpu_ops(device_, best_isa(), limits, arithmetic, {});
  }

  Stream& stream() { return *stream_; }

  DeviceBuffer allocate(std::int64_t bytes) { return device_.allocate("test", bytes); }

  template <typename T>
  DeviceBuffer upload(std::span<const T> values) {
    DeviceBuffer buffer = allocate(static_cast<std::int64_t>(values.size_bytes()));
    write(buffer.data(), values);
    return buffer;
  }
  // Rounded to `dtype`.
  DeviceBuffer upload(std::span<const float> values, Dtype dtype) {
    if (dtype == Dtype::f32) return upload(values);
    std::vector<bf16> rounded(values.size());
    std::ranges::transform(values, rounded.begin(), to_bf16_nearest_even);
    return upload(std::span<const bf16>(rounded));
  }

  // `bytes` to use, then a pattern that expect_guard() finds unchanged.
  DeviceBuffer allocate_guarded(std::int64_t bytes) {
    const std::vector<std::byte> pattern(static_cast<std::size_t>(bytes + kGuardBytes), kGuard);
    return upload<std::byte>(pattern);
  }
  void expect_guard(const DeviceBuffer& buffer, std::int64_t bytes) {
    const auto guard = read<std::byte>(buffer.data() + bytes, kGuardBytes);
    EXPECT_TRUE(std::ranges::all_of(guard, [](std::byte b) { return b == kGuard; }));
  }

  template <typename T>
  void write(std::byte* device, std::span<const T> values) {
    const auto bytes = static_cast<std::int64_t>(values.size_bytes());
    STRATA_CHECK(bytes <= kStagingBytes);
    std::memcpy(staging_.data(), values.data(), values.size_bytes());
    stream_->copy(device, staging_.data(), bytes);
    stream_->synchronize();
  }

  template <typename T>
  std::vector<T> read(const void* device, std::int64_t elements) {
    std::vector<T> values(static_cast<std::size_t>(elements));
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
    STRATA_CHECK(bytes <= kStagingBytes);
    stream_->copy(staging_.data(), device, bytes);
    stream_->synchronize();
    std::memcpy(values.data(), staging_.data(), static_cast<std::size_t>(bytes));
    return values;
  }
  // Widened from `dtype`.
  std::vector<float> read(const void* device, std::int64_t elements, Dtype dtype) {
    if (dtype == Dtype::f32) return read<float>(device, elements);
    const std::vector<bf16> stored = read<bf16>(device, elements);
    std::vector<float> values(stored.size());
    std::ranges::transform(stored, values.begin(), to_float);
    return values;
  }

 private:
  static constexpr std::int64_t kMemoryBytes = 64 * kMiB;
  static constexpr std::int64_t kStagingBytes = 4 * kMiB;
  static constexpr std::int64_t kGuardBytes = 4096;
  static constexpr std::byte kGuard{0xA5};

  WorkerSet workers_;
  Budget host_;
  FailureLatch failure_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
  PinnedBuffer staging_;
};

}  // namespace strata::models
