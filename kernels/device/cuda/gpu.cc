#include "kernels/device/cuda/gpu.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/device/cuda/architectures.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/gpu_context.h"

namespace strata::cuda {
namespace {

constexpr int kCapabilityMin = 80;  // products in bf16, asynchronous copies

void read_memory(Gpu& gpu) {
  std::size_t free_bytes = 0;
  std::size_t memory_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &memory_bytes), "cudaMemGetInfo");
  gpu.free_bytes = static_cast<std::int64_t>(free_bytes);
  gpu.memory_bytes = static_cast<std::int64_t>(memory_bytes);
}

}  // namespace

int visible_gpus() {
  int visible = 0;
  const cudaError_t result = cudaGetDeviceCount(&visible);
  if (result != cudaErrorNoDevice) check(result, "cudaGetDeviceCount");
  if (visible == 0) {
    (void)cudaGetLastError();
    throw ConfigError("no NVIDIA GPU is visible (nvidia-smi, CUDA_VISIBLE_DEVICES)");
  }
  return visible;
}

int choose_gpu(int visible, int local_rank) { return local_rank % visible; }

void require_kernels_for(const std::string& name, int capability) {
  if (capability >= oldest_capability()) return;
  throw_error<ConfigError>(
      "{} has compute capability {}.{}, and this build has kernels for {}.{} and newer: {}", name,
      capability / 10, capability % 10, oldest_capability() / 10, oldest_capability() % 10,
      capability < kCapabilityMin
          ? "Strata needs 8.0 (Ampere)"
          : fmt::format("build with -DSTRATA_CUDA_ARCHITECTURES={}", capability));
}

std::string gpu_id(int local_rank) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, choose_gpu(visible_gpus(), local_rank)),
        "cudaGetDeviceProperties");
  require_kernels_for(properties.name, 10 * properties.major + properties.minor);
  std::string id;
  for (const char byte : properties.uuid.bytes) {
    id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return id;
}

Gpu open_gpu(int local_rank) {
  Gpu gpu;
  gpu.index = choose_gpu(visible_gpus(), local_rank);
  gpu.context_bytes = make_context(gpu.index);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, gpu.index), "cudaGetDeviceProperties");
  gpu.name = properties.name;
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  gpu.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  read_memory(gpu);
  return gpu;
}

void close_gpu(const Gpu& gpu) {
  check(cudaSetDevice(gpu.index), "cudaSetDevice");
  check(cudaDeviceReset(), "cudaDeviceReset");
}

void charge_growth(Gpu& gpu) {
  const std::int64_t before_bytes = gpu.free_bytes;
  read_memory(gpu);
  gpu.context_bytes += std::max<std::int64_t>(0, before_bytes - gpu.free_bytes);
}

}  // namespace strata::cuda
