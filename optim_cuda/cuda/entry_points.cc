// What the program finds in the backend: optim_cuda/device_optimizer.h.
#include "kernels/device/cuda/cuda_stream.h"
#include "optim_cuda/cuda/gradient.h"
#include "optim_cuda/cuda/update.h"
#include "optim_cuda/device_optimizer.h"

namespace strata::optim {
namespace {

class CudaOptimizer final : public DeviceOptimizer {
 public:
  void accumulate(Stream& stream, float* accumulated, const float* addend,
                  std::int64_t elements) override {
    as_cuda(stream).launch("accumulate", [&](cudaStream_t handle) {
      cuda::accumulate(handle, accumulated, addend, elements);
    });
  }
  void round_to_bf16(Stream& stream, bf16* destination, const float* source,
                     std::int64_t elements) override {
    as_cuda(stream).launch("round gradient", [&](cudaStream_t handle) {
      cuda::round_to_bf16(handle, destination, source, elements);
    });
  }
  void round_to_bf16(Stream& stream, float* values, std::int64_t elements) override {
    as_cuda(stream).launch("round gradient", [&](cudaStream_t handle) {
      cuda::round_to_bf16(handle, values, values, elements);
    });
  }
  void add_square_sums(Stream& stream, double* sums, const void* gradient, Dtype dtype,
                       std::int64_t first, std::int64_t last) override {
    as_cuda(stream).launch("gradient norm", [&](cudaStream_t handle) {
      cuda::add_square_sums(handle, sums, gradient, dtype, first, last);
    });
  }

 private:
  void launch(Stream& stream, const UpdateCall& call) override {
    as_cuda(stream).launch("update", [&](cudaStream_t handle) { cuda::update(handle, call); });
  }
};

}  // namespace

STRATA_CUDA_ENTRY_POINT cuda_entry::MakeOptimizer strata_cuda_make_optimizer;

void strata_cuda_make_optimizer(std::unique_ptr<DeviceOptimizer>& result) {
  result = std::make_unique<CudaOptimizer>();
}

}  // namespace strata::optim
