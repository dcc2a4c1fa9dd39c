// Bench: a cuda device with its ops, operands full of random numbers, and the time that work takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/budget.h"
#include "kernels/base/failure_latch.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::gpu_bench {

enum class Scale : std::uint8_t { full, tiny };  // tiny: seconds on the simulated device

// A matrix with memory of its own.
struct Operand {
  DeviceBuffer memory;
  ops::Matrix view;
  float* f32() const { return static_cast<float*>(view.data); }
  std::int32_t* i32() const { return static_cast<std::int32_t*>(view.data); }
};

class Bench {
 public:
  explicit Bench(Scale scale);

  Scale scale() const { return scale_; }
  const Gpu& gpu() const { return options_.gpu; }
  Device& device() { return device_; }
  Stream& stream() { return *stream_; }
  // Ops from here on, with plans for this attention.
  void attach_ops(const ops::PlannedAttention& attention = {});
  ops::CudaOps& ops() { return *ops::cuda_ops(*stream_); }

  // Uniform in [-1, 1): zeros would draw less power, so that the clock would be another.
  Operand random(Dtype dtype, std::int64_t rows, std::int64_t cols);
  Operand ids(const std::vector<std::int32_t>& values);
  PinnedBuffer pinned(std::int64_t bytes) { return device_.allocate_pinned("gpu_bench", bytes); }

  // Of what `enqueue` puts on the streams, once: the median of runs that each repeat it often
  // enough for starting and waiting not to count. A first run, in which kernels are loaded, is left
  // out.
  double seconds(const std::function<void()>& enqueue, const std::function<void()>& synchronize);
  double seconds(const std::function<void()>& enqueue) {
    return seconds(enqueue, [this] { stream_->synchronize(); });
  }
  // Of `enqueue` alone, while the stream has room for what it enqueues.
  double host_seconds(const std::function<void()>& enqueue);

 private:
  static CudaDeviceOptions options(Scale scale);
  void upload(const DeviceBuffer& to, const PinnedBuffer& from, std::int64_t bytes);

  Scale scale_;
  CudaDeviceOptions options_;
  Budget host_;
  FailureLatch failure_;
  CudaDevice device_;
  std::unique_ptr<Stream> stream_;
  PinnedBuffer random_f32_;
  PinnedBuffer random_bf16_;
};

// One line of JSON; what was moved or computed is its floor's, 0 if it has none.
struct Floor {
  double bytes = 0;
  double flops = 0;
};
void report(const char* kind, const std::string& name, double seconds, const Floor& floor);
void report_enqueue(const std::string& name, double host_seconds, double seconds);

}  // namespace strata::gpu_bench
