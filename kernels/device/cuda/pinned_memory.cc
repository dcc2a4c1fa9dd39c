#include "kernels/device/cuda/pinned_memory.h"

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata::cuda {
namespace {

class Registration {
 public:
  Registration(int gpu, void* data, const FailureLatch& failure)
      : gpu_(gpu), data_(data), failure_(failure) {}
  ~Registration() {
    ignore(cudaSetDevice(gpu_));
    if (failure_.failed()) ignore(cudaDeviceSynchronize());  // for copies that the run has left
    ignore(cudaHostUnregister(data_));
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  int gpu_;
  void* data_;
  const FailureLatch& failure_;
};

}  // namespace

std::shared_ptr<void> register_pinned(int gpu, std::string_view tag, const AlignedBuffer& memory,
                                      const FailureLatch& failure) {
  if (memory.bytes() == 0) return nullptr;
  const cudaError_t result = cudaHostRegister(
      memory.data(), static_cast<std::size_t>(memory.bytes()), cudaHostRegisterDefault);
  if (result == cudaSuccess) return std::make_shared<Registration>(gpu, memory.data(), failure);
  (void)cudaGetLastError();
  throw_error<CudaError>(
      "host pinned memory: {} of {} ({} bytes) cannot be registered with CUDA: {} ({}); lower "
      "--host-memory",
      tag, format_bytes(memory.bytes()), memory.bytes(), cudaGetErrorString(result),
      cudaGetErrorName(result));
}

}  // namespace strata::cuda
