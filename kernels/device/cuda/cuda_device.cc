#include "kernels/device/cuda/cuda_device.h"

#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/cuda_stream.h"
#include "kernels/device/cuda/gpu_context.h"
#include "kernels/device/cuda/pinned_memory.h"

namespace strata {
namespace {

std::byte* allocate_arena(const Gpu& gpu, std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  void* arena = nullptr;
  const cudaError_t result = cudaMalloc(&arena, static_cast<std::size_t>(bytes));
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw_error<CudaError>(
        "device memory: {} has no {} ({} bytes) in one piece, {} were free at the start; lower "
        "--device-memory",
        gpu.name, format_bytes(bytes), bytes, format_bytes(gpu.free_bytes));
  }
  cuda::check(result, "cudaMalloc");
  return static_cast<std::byte*>(arena);
}

}  // namespace

CudaDevice::CudaDevice(const CudaDeviceOptions& options, Budget& host_budget, FailureLatch& failure)
    : Device(options.device_memory_bytes, host_budget),
      options_(options),
      failure_(failure),
      context_(device_budget().reserve("CUDA context and libraries", options.gpu.context_bytes)),
      free_(options.device_memory_bytes - options.gpu.context_bytes) {
  make_current();
  arena_ = allocate_arena(options.gpu, options.device_memory_bytes - options.gpu.context_bytes);
}

CudaDevice::~CudaDevice() {
  release_op_state();
  context_ = Reservation();
  STRATA_CHECK(device_budget().held_bytes() == 0, "device buffers outlive their device");
  cuda::ignore(cudaSetDevice(options_.gpu.index));
  clock_.reset();
  cuda::ignore(cudaFree(arena_));
}

void CudaDevice::make_current() const {
  cuda::check(cudaSetDevice(options_.gpu.index), "cudaSetDevice");
}

GpuClock& CudaDevice::clock() {
  std::call_once(clock_made_, [&] { clock_ = std::make_unique<GpuClock>(); });
  return *clock_;
}

PinnedBuffer CudaDevice::allocate_pinned(std::string tag, std::int64_t bytes) {
  AlignedBuffer memory(host_budget(), tag, bytes);
  make_current();
  auto registration = cuda::register_pinned(options_.gpu.index, tag, memory, failure_);
  return make_pinned(std::move(memory), std::move(registration));
}

std::unique_ptr<Stream> CudaDevice::make_stream(std::string name) {
  make_current();
  // A collective goes from rank to rank: its few blocks must not wait for a product's many to end.
  const bool is_collective = name == "gather" || name == "reduce";
  const StreamPriority priority = is_collective ? StreamPriority::high : StreamPriority::normal;
  return std::make_unique<CudaStream>(*this, std::move(name), priority);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  make_current();
  return std::make_unique<CudaEvent>(*this);
}

std::byte* CudaDevice::arena_allocate(std::int64_t bytes) {
  return cuda::place_piece(arena_, free_.take(bytes), bytes);
}

// A run that fails gives memory back in any order: what the GPU still does with it ends first.
void CudaDevice::arena_free(std::byte* data, std::int64_t bytes) noexcept {
  if (failure_.failed()) {
    cuda::ignore(cudaSetDevice(options_.gpu.index));
    cuda::ignore(cudaDeviceSynchronize());
  }
  free_.give_back(cuda::take_back_piece(arena_, data, bytes), bytes);
}

}  // namespace strata
