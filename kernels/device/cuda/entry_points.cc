// What the program finds in the backend: kernels/device/cuda_backend.h.
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/gpu.h"

namespace strata {

STRATA_CUDA_ENTRY_POINT cuda_entry::Stamp strata_cuda_stamp;
STRATA_CUDA_ENTRY_POINT cuda_entry::CheckGpus strata_cuda_check_gpus;
STRATA_CUDA_ENTRY_POINT cuda_entry::GpuId strata_cuda_gpu_id;
STRATA_CUDA_ENTRY_POINT cuda_entry::OpenGpu strata_cuda_open_gpu;
STRATA_CUDA_ENTRY_POINT cuda_entry::CloseGpu strata_cuda_close_gpu;
STRATA_CUDA_ENTRY_POINT cuda_entry::MakeDevice strata_cuda_make_device;

const char* strata_cuda_stamp() { return STRATA_CUDA_STAMP; }

void strata_cuda_check_gpus() { (void)cuda::visible_gpus(); }

void strata_cuda_gpu_id(int local_rank, std::string& id) { id = cuda::gpu_id(local_rank); }

void strata_cuda_open_gpu(int local_rank, Gpu& gpu) { gpu = cuda::open_gpu(local_rank); }

void strata_cuda_close_gpu(const Gpu& gpu) { cuda::close_gpu(gpu); }

void strata_cuda_make_device(const CudaDeviceOptions& options, Budget& host_budget,
                             FailureLatch& failure, std::unique_ptr<Device>& device) {
  device = std::make_unique<CudaDevice>(options, host_budget, failure);
}

}  // namespace strata
