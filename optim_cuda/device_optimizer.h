// DeviceOptimizer: what optim_cpu/ does, on state in the memory of a GPU, with the same bits
// (docs/optimizer.md).
//
// The implementation is in the CUDA backend (cuda/), which makes it. Everything is enqueued on a
// stream of a cuda device, and nothing waits or is allocated. Data are in device memory, at
// multiples of 16 bytes. Thread contract: no state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/device/cuda_backend.h"
#include "kernels/device/device.h"
#include "optim_cpu/gradient.h"
#include "optim_cpu/optimizer.h"
#include "optim_cuda/update_call.h"

namespace strata::optim {

class DeviceOptimizer {
 public:
  virtual ~DeviceOptimizer() = default;

  // optim::update() of a multiple of kScaleElements. Moments in int8 begin with a block and, where
  // there are several, end with one. Where that would return false, *left_domain becomes the unit
  // + 1, unless another unit's is there.
  void update(Stream& stream, const StepSettings& settings, std::span<const Segment> segments,
              const State& state, const Int8Blocks& blocks, std::int32_t* left_domain);

  // accumulated[i] += addend[i].
  virtual void accumulate(Stream& stream, float* accumulated, const float* addend,
                          std::int64_t elements) = 0;
  // To nearest, ties to even. The second one in place, widened again.
  virtual void round_to_bf16(Stream& stream, bf16* destination, const float* source,
                             std::int64_t elements) = 0;
  virtual void round_to_bf16(Stream& stream, float* values, std::int64_t elements) = 0;
  // Adds to sums[b] gradient_square_sum() of those of the elements [first, last) that are among the
  // kSquareSumElements of block b, counted from element 0. A sum that is not finite says that an
  // element was not.
  virtual void add_square_sums(Stream& stream, double* sums, const void* gradient, Dtype dtype,
                               std::int64_t first, std::int64_t last) = 0;

 private:
  virtual void launch(Stream& stream, const UpdateCall& call) = 0;
};

std::unique_ptr<DeviceOptimizer> make_device_optimizer(const CudaBackend& backend);

namespace cuda_entry {
using MakeOptimizer = void(std::unique_ptr<DeviceOptimizer>& result);  // strata_cuda_make_optimizer
}  // namespace cuda_entry

}  // namespace strata::optim
