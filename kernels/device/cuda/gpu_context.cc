// How much memory of a GPU is in use can be asked of CUDA only once there is a context, whose share
// is then part of the answer. NVML, a library of the driver, knows it before.
#include "kernels/device/cuda/gpu_context.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/device/cuda/cuda_error.h"

namespace strata::cuda {
namespace {

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    usable_ = find(init_, "nvmlInit_v2") && find(handle_, "nvmlDeviceGetHandleByPciBusId_v2") &&
              find(memory_, "nvmlDeviceGetMemoryInfo") && init_() == kSuccess;
  }
  // Leaves it loaded, as its users do: the driver's own libraries share its state.
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<std::int64_t> used_bytes(int gpu) const {
    if (!usable_) return std::nullopt;
    std::array<char, 32> bus_id{};
    check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), gpu),
          "cudaDeviceGetPCIBusId");
    void* device = nullptr;
    Memory memory{};
    if (handle_(bus_id.data(), &device) != kSuccess || memory_(device, &memory) != kSuccess) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(memory.used);
  }

 private:
  static constexpr int kSuccess = 0;
  struct Memory {  // nvmlMemory_t
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };

  template <typename Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    return function != nullptr;
  }

  void* library_;
  bool usable_ = false;
  int (*init_)() = nullptr;
  int (*handle_)(const char* bus_id, void** device) = nullptr;
  int (*memory_)(void* device, Memory* memory) = nullptr;
};

}  // namespace

// Without NVML, all that is in use counts as ours: then a budget is smaller than it need be where
// others use the GPU too.
std::int64_t make_context(int gpu) {
  const Nvml nvml;
  const std::optional<std::int64_t> before_bytes = nvml.used_bytes(gpu);
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
  check(cudaFree(nullptr), "making a context");
  const std::optional<std::int64_t> after_bytes = nvml.used_bytes(gpu);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const auto in_use_bytes = static_cast<std::int64_t>(total_bytes - free_bytes);
  if (!before_bytes || !after_bytes) return in_use_bytes;
  // Others may have taken or given back some meanwhile.
  return std::clamp<std::int64_t>(*after_bytes - *before_bytes, 0, in_use_bytes);
}

std::byte* place_piece(std::byte* arena, std::int64_t offset_bytes, std::int64_t /*bytes*/) {
  return arena + offset_bytes;
}
std::int64_t take_back_piece(std::byte* arena, std::byte* piece, std::int64_t /*bytes*/) noexcept {
  return piece - arena;
}

}  // namespace strata::cuda
