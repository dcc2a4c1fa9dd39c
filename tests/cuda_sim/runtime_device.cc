// The functions of the CUDA runtime that the project calls: the device itself, and errors' names.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "cuda_sim/api_call.h"
#include "cuda_sim/block.h"
#include "cuda_sim/device.h"
#include "cuda_sim/memory.h"
#include "cuda_sim/report.h"
#include "cuda_sim/stream.h"

using namespace strata::cuda_sim;

namespace strata::cuda_sim {
namespace {
std::atomic<int> devices{1};
std::atomic<int> capability{9};
thread_local int current_device = 0;
}  // namespace
void set_devices(int count) { devices.store(count, std::memory_order_relaxed); }
void set_capability(int major) { capability.store(major, std::memory_order_relaxed); }
}  // namespace strata::cuda_sim

cudaError_t cudaGetDeviceCount(int* count) {
  return api_call("cudaGetDeviceCount", [&] {
    *count = devices.load(std::memory_order_relaxed);
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", [&] {
    if (device < 0 || device >= devices.load(std::memory_order_relaxed)) {
      return cudaErrorInvalidDevice;
    }
    current_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", [&] {
    *device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int) {
  return api_call("cudaSetDeviceFlags", [] { return cudaSuccess; });
}

cudaError_t cudaDeviceSynchronize() {
  return release_call("cudaDeviceSynchronize", [] {
    wait_for_all_streams();
    return device_error();
  });
}

cudaError_t cudaDeviceReset() {
  return api_call("cudaDeviceReset", [] {
    if (free_bytes() != kTotalBytes - kContextBytes) report("cudaDeviceReset with memory in use");
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call("cudaGetDeviceProperties", [&] {
    if (device < 0 || device >= devices.load(std::memory_order_relaxed)) {
      return cudaErrorInvalidDevice;
    }
    *properties = {};
    std::strcpy(properties->name, "simulated GPU");
    properties->totalGlobalMem = static_cast<std::size_t>(kTotalBytes);
    properties->sharedMemPerBlock = 48 * 1024;
    properties->sharedMemPerBlockOptin = static_cast<std::size_t>(kSharedBytesMax);
    properties->regsPerBlock = 65536;
    properties->warpSize = kLanes;
    properties->maxThreadsPerBlock = kBlockThreadsMax;
    properties->major = capability.load(std::memory_order_relaxed);
    properties->multiProcessorCount = 4;
    properties->asyncEngineCount = 2;
    properties->unifiedAddressing = 1;
    properties->pciBusID = device + 1;
    const pid_t process = ::getpid();  // each has a GPU of its own
    std::memcpy(properties->uuid.bytes, &process, sizeof process);
    properties->uuid.bytes[15] = static_cast<char>(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api_call("cudaDriverGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api_call("cudaRuntimeGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define STRATA_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    STRATA_ERROR(cudaSuccess, "no error"),
    STRATA_ERROR(cudaErrorInvalidValue, "invalid argument"),
    STRATA_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    STRATA_ERROR(cudaErrorInitializationError, "initialization error"),
    STRATA_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    STRATA_ERROR(cudaErrorInsufficientDriver,
                 "CUDA driver version is insufficient for CUDA runtime version"),
    STRATA_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    STRATA_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    STRATA_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    STRATA_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    STRATA_ERROR(cudaErrorNotReady, "device not ready"),
    STRATA_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    STRATA_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    STRATA_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    STRATA_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                 "part or all of the requested memory range is already mapped"),
    STRATA_ERROR(cudaErrorHostMemoryNotRegistered,
                 "pointer does not correspond to a registered memory region"),
    STRATA_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    STRATA_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    STRATA_ERROR(cudaErrorNotSupported, "operation not supported"),
    STRATA_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef STRATA_ERROR

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText kUnrecognized{cudaErrorUnknown, "unrecognized error code",
                                           "unrecognized error code"};
  for (const ErrorText& known : kErrors) {
    if (known.error == error) return known;
  }
  return kUnrecognized;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
