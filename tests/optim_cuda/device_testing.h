// What the tests of this folder share: a cuda device with the optimizer's kernels, and host arrays
// in its memory for the time of a call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/gpu.h"
#include "optim_cuda/device_optimizer.h"

extern "C" strata::optim::cuda_entry::MakeOptimizer strata_cuda_make_optimizer;

namespace strata::optim {

class TestGpu {
 public:
  TestGpu() { strata_cuda_make_optimizer(optimizer_); }
  Device& device() { return device_; }
  Stream& stream() { return *stream_; }
  DeviceOptimizer& optimizer() { return *optimizer_; }

 private:
  static CudaDeviceOptions options() {
    const Gpu gpu = cuda::open_gpu(0);
    return {gpu, gpu.context_bytes + 8 * kMiB, -1};
  }
  Budget host_budget_{"host memory", 8 * kMiB};
  FailureLatch failure_;
  CudaDevice device_{options(), host_budget_, failure_};
  std::unique_ptr<Stream> stream_ = device_.make_stream("compute");
  std::unique_ptr<DeviceOptimizer> optimizer_;
};

// Memory of the host, and its copy on the device; what was written there comes back at the end.
class OnDevice {
 public:
  OnDevice(TestGpu& gpu, void* host, std::int64_t bytes)
      : gpu_(&gpu),
        host_(host),
        bytes_(bytes),
        pinned_(gpu.device().allocate_pinned("test", bytes)),
        device_(gpu.device().allocate("test", bytes)) {
    std::memcpy(pinned_.data(), host, static_cast<std::size_t>(bytes));
    gpu.stream().copy(device_.data(), pinned_.data(), bytes);
    gpu.stream().synchronize();
  }
  template <typename T>
  OnDevice(TestGpu& gpu, std::vector<T>& host)
      : OnDevice(gpu, host.data(), std::ssize(host) * static_cast<std::int64_t>(sizeof(T))) {}
  OnDevice(OnDevice&& other) noexcept = default;
  ~OnDevice() {
    if (device_.data() == nullptr) return;
    gpu_->stream().copy(pinned_.data(), device_.data(), bytes_);
    gpu_->stream().synchronize();
    std::memcpy(host_, pinned_.data(), static_cast<std::size_t>(bytes_));
  }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(device_.data());
  }

 private:
  TestGpu* gpu_;
  void* host_;
  std::int64_t bytes_;
  PinnedBuffer pinned_;
  DeviceBuffer device_;
};

// Of a few scales, not a power of two, and with a gap.
inline constexpr Int8Blocks kBlocks{3 * kScaleElements, 3 * kScaleElements + 64};

// A moment in int8 as OnDevice has arrays, in blocks.
class BlocksOnDevice {
 public:
  // `moment` is where it lies there from then on.
  BlocksOnDevice(TestGpu& gpu, Moment& moment, std::int64_t elements)
      : host_(moment), elements_(elements) {
    if (moment.values == nullptr) return;
    blocks_.resize(static_cast<std::size_t>(ceil_div(elements, kBlocks.elements) * kBlocks.bytes));
    for_each_part([](std::byte* host, std::byte* block, std::int64_t bytes) {
      std::memcpy(block, host, static_cast<std::size_t>(bytes));
    });
    device_.emplace(gpu, blocks_);
    moment.values = device_->as<std::byte>();
    moment.scales = reinterpret_cast<float*>(device_->as<std::byte>() + kBlocks.elements);
  }
  BlocksOnDevice(BlocksOnDevice&&) = delete;
  ~BlocksOnDevice() {
    device_.reset();
    for_each_part([](std::byte* host, const std::byte* block, std::int64_t bytes) {
      std::memcpy(host, block, static_cast<std::size_t>(bytes));
    });
  }

 private:
  template <typename Copy>
  void for_each_part(const Copy& copy) {
    if (blocks_.empty()) return;
    std::byte* block = blocks_.data();
    for (std::int64_t first = 0; first < elements_; first += kBlocks.elements) {
      const std::int64_t count = std::min(kBlocks.elements, elements_ - first);
      const std::int64_t scale = first / kScaleElements;
      copy(static_cast<std::byte*>(host_.values) + first, block, count);
      copy(reinterpret_cast<std::byte*>(host_.scales + scale), block + kBlocks.elements,
           count / kScaleElements * 4);
      block += kBlocks.bytes;
    }
  }

  Moment host_;
  std::int64_t elements_;
  std::vector<std::byte> blocks_;
  std::optional<OnDevice> device_;
};

// DeviceOptimizer::update() on a state of the host. Returns what it left in *left_domain, which was
// `left` before.
inline std::int32_t update_on_device(TestGpu& gpu, const StepSettings& settings,
                                     std::span<const Segment> segments, const State& host,
                                     std::int32_t left = 0) {
  std::vector<OnDevice> arrays;
  const auto move = [&](auto*& data, std::int64_t bytes) {
    if (data == nullptr || bytes == 0) return;
    auto* const mutable_data = const_cast<void*>(static_cast<const void*>(data));
    using Pointer = std::remove_reference_t<decltype(data)>;
    data = reinterpret_cast<Pointer>(
        arrays.emplace_back(gpu, mutable_data, bytes).template as<std::byte>());
  };
  State state = host;
  move(state.weight, state.elements * (state.remainder != nullptr ? 2 : 4));
  move(state.remainder, state.elements * 2);
  const bool in_blocks = state.moments == MomentFormat::int8;
  std::list<BlocksOnDevice> blocks;
  for (Moment* moment : {&state.moment1, &state.moment2}) {
    if (in_blocks) {
      blocks.emplace_back(gpu, *moment, state.elements);
    } else {
      move(moment->values, state.elements * moment_bytes(state.moments));
    }
  }
  move(state.gradient, state.elements * bytes_of(state.gradient_dtype));
  {
    const OnDevice flag(gpu, &left, sizeof(left));
    gpu.optimizer().update(gpu.stream(), settings, segments, state, kBlocks,
                           flag.as<std::int32_t>());
  }
  return left;
}

}  // namespace strata::optim
