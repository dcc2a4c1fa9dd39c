// The CUDA backend as the program sees it: a shared object, libstrata_cuda.so, so that nobody
// without a GPU pays for NVIDIA's libraries. It is looked for beside the program and where it is
// installed; STRATA_CUDA_BACKEND names another file. Once loaded it stays.
//
//   find_cuda_backend() ──▶ backend ──open_gpu()──▶ Gpu ──make_device()──▶ Device
//             └──▶ reason: no library, no driver, no GPU
//
// Each layer that has a part in it exports entry points of its own, found by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/base/budget.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/device/device.h"

#define STRATA_CUDA_ENTRY_POINT extern "C" __attribute__((visibility("default")))

namespace strata {

// Sets in the environment what CUDA must be told, where the user did not, and takes out of it what
// would change bits or hang. Before anything is asked of CUDA, while the process has one thread.
void set_cuda_environment();

// A GPU that this process has a context on.
struct Gpu {
  int index = 0;  // of those visible
  std::string name;
  std::string driver;  // the CUDA version that it is of: "13.0"
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t context_bytes = 0;  // what context and libraries took, as measured
};

struct CudaDeviceOptions {
  Gpu gpu;
  std::int64_t device_memory_bytes = 0;  // context and libraries included
  // Test seam: waits of this kind are left out (-1: none).
  int skip_wait_kind = -1;
  Tracer* tracer = nullptr;  // outlives the device; null: none
};

class CudaBackend {
 public:
  // Throws ConfigError unless the file is the backend of this very build.
  explicit CudaBackend(const std::string& path);

  // The GPU of this rank among those of its machine, or the only one. Throw CudaError or
  // ConfigError. Its id is the same in all processes, and asking for it makes no context.
  std::string gpu_id(int local_rank) const;
  Gpu open_gpu(int local_rank) const;
  // Gives up the context, so that other processes have all of the GPU: nothing of it may be alive.
  // It can be opened again. Throws CudaError.
  void close_gpu(const Gpu& gpu) const;
  // All references must outlive the device. Throws OutOfBudget or CudaError.
  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options, Budget& host_budget,
                                      FailureLatch& failure) const;

  // Of a layer above, by the name and type that it declares.
  template <typename Function>
  Function* entry_point(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;
  std::string path_;
  void* library_;
};

struct CudaSearch {
  std::optional<CudaBackend> backend;
  std::string reason;  // for people, if there is none: "no NVIDIA driver is loaded (…)"
};
// Loads nothing of CUDA where no driver is installed.
CudaSearch find_cuda_backend();

namespace cuda_entry {
using Stamp = const char*();
using CheckGpus = void();  // throws unless one is visible
using GpuId = void(int local_rank, std::string& id);
using OpenGpu = void(int local_rank, Gpu& gpu);
using CloseGpu = void(const Gpu& gpu);
using MakeDevice = void(const CudaDeviceOptions& options, Budget& host_budget,
                        FailureLatch& failure, std::unique_ptr<Device>& device);
}  // namespace cuda_entry

}  // namespace strata
