#include "kernels/device/cuda_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "kernels/base/error.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libstrata_cuda.so";
constexpr const char* kDriver = "libcuda.so.1";
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

// "" if it is nowhere.
std::string find_file() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& candidate : {folder / kFile, folder / STRATA_CUDA_FOLDER / kFile}) {
    if (fs::exists(candidate)) return candidate.lexically_normal();
  }
  return "";
}

}  // namespace

void set_cuda_environment() {
  // What kernels take of device memory is then in the context, and none is loaded within a step,
  // which waits for the whole device (NCCL must not be waited for).
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // streams that share no hardware queue
  // Would have NCCL order the launches of both kinds of collectives as each rank makes them, which
  // differs (offload/comm/cuda/nccl_communicator.h).
  ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  ::unsetenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT");
}

CudaBackend::CudaBackend(const std::string& path)
    : path_(path), library_(::dlopen(path.c_str(), kOpenFlags)) {
  if (library_ == nullptr) {
    throw_error<ConfigError>("the CUDA backend cannot be loaded: {}", ::dlerror());
  }
  const std::string_view stamp = entry_point<cuda_entry::Stamp>("strata_cuda_stamp")();
  if (stamp != STRATA_CUDA_STAMP) {
    throw_error<ConfigError>(
        "{} is of another build of Strata ({}, the program is {}); install both from one build",
        path, stamp, STRATA_CUDA_STAMP);
  }
}

void* CudaBackend::find(const char* name) const {
  void* const entry = ::dlsym(library_, name);
  if (entry == nullptr) {
    throw_error<ConfigError>("{} is no CUDA backend of Strata: it has no {}", path_, name);
  }
  return entry;
}

std::string CudaBackend::gpu_id(int local_rank) const {
  std::string id;
  entry_point<cuda_entry::GpuId>("strata_cuda_gpu_id")(local_rank, id);
  return id;
}

Gpu CudaBackend::open_gpu(int local_rank) const {
  Gpu gpu;
  entry_point<cuda_entry::OpenGpu>("strata_cuda_open_gpu")(local_rank, gpu);
  return gpu;
}

void CudaBackend::close_gpu(const Gpu& gpu) const {
  entry_point<cuda_entry::CloseGpu>("strata_cuda_close_gpu")(gpu);
}

std::unique_ptr<Device> CudaBackend::make_device(const CudaDeviceOptions& options,
                                                 Budget& host_budget, FailureLatch& failure) const {
  std::unique_ptr<Device> device;
  entry_point<cuda_entry::MakeDevice>("strata_cuda_make_device")(options, host_budget, failure,
                                                                 device);
  return device;
}

CudaSearch find_cuda_backend() {
  const char* const named = std::getenv("STRATA_CUDA_BACKEND");
  if (named == nullptr && ::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return {std::nullopt, fmt::format("no NVIDIA driver is installed (no {})", kDriver)};
  }
  const std::string path = named != nullptr ? named : find_file();
  if (path.empty()) {
    return {std::nullopt, fmt::format("this build of Strata has no CUDA backend (no {})", kFile)};
  }
  try {
    CudaBackend backend(path);
    backend.entry_point<cuda_entry::CheckGpus>("strata_cuda_check_gpus")();
    return {std::move(backend), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace strata
