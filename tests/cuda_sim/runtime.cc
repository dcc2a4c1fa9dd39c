// The functions of the CUDA runtime that the project calls: memory, streams, events.
#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "cuda_sim/api_call.h"
#include "cuda_sim/host_memory.h"
#include "cuda_sim/memory.h"
#include "cuda_sim/stream.h"

using namespace strata::cuda_sim;
namespace cuda_sim = strata::cuda_sim;

namespace {

constexpr int kGreatestPriority = -5;  // of least 0

// Of a copy: the bytes of either side, as the stream's thread reaches them. Host memory was found
// registered when the copy was enqueued.
void* bytes_of(const void* address, std::size_t bytes, Access access) {
  return is_device_address(address)
             ? checked_range(address, static_cast<std::int64_t>(bytes), access)
             : const_cast<void*>(address);
}

void check_side(const void* address, std::size_t bytes, Access access) {
  if (is_device_address(address)) {
    checked_range(address, static_cast<std::int64_t>(bytes), access);
  } else {
    require_registered(address, static_cast<std::int64_t>(bytes));
  }
}

bool direction_fits(const void* to, const void* from, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return !is_device_address(to) && !is_device_address(from);
    case cudaMemcpyHostToDevice:
      return is_device_address(to) && !is_device_address(from);
    case cudaMemcpyDeviceToHost:
      return !is_device_address(to) && is_device_address(from);
    case cudaMemcpyDeviceToDevice:
      return is_device_address(to) && is_device_address(from);
  }
  return false;
}

}  // namespace

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return api_call("cudaMalloc", [&] {
    if (address == nullptr) return cudaErrorInvalidValue;
    *address = bytes == 0 ? nullptr : allocate(static_cast<std::int64_t>(bytes));
    return bytes == 0 || *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFree(void* address) {
  return release_call("cudaFree", [&] {
    if (address == nullptr) return cudaSuccess;
    report_unseen_error();
    return cuda_sim::free(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    *free = static_cast<std::size_t>(free_bytes());
    *total = static_cast<std::size_t>(kTotalBytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned int) {
  return api_call("cudaHostRegister",
                  [&] { return register_host(address, static_cast<std::int64_t>(bytes)); });
}

cudaError_t cudaHostUnregister(void* address) {
  return release_call("cudaHostUnregister", [&] { return unregister_host(address); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api_call("cudaMemcpyAsync", [&] {
    if (bytes == 0) return cudaSuccess;
    if (!direction_fits(to, from, kind)) return cudaErrorInvalidValue;
    check_side(from, bytes, Access::read);
    check_side(to, bytes, Access::write);
    enqueue(stream, "copy", [=] {
      std::memcpy(bytes_of(to, bytes, Access::write), bytes_of(from, bytes, Access::read), bytes);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return api_call("cudaMemsetAsync", [&] {
    if (bytes == 0) return cudaSuccess;
    check_side(to, bytes, Access::write);
    enqueue(stream, "fill", [=] { std::memset(bytes_of(to, bytes, Access::write), value, bytes); });
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api_call("cudaLaunchHostFunc", [&] {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    stream->post([=] {
      if (device_error() != cudaSuccess) return;
      const Working working("host function");
      const InHostFunction guard;
      function(data);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api_call("cudaDeviceGetStreamPriorityRange", [&] {
    *least = 0;
    *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return api_call("cudaStreamCreateWithPriority", [&] {
    if (flags != cudaStreamNonBlocking) report("a stream that waits for the default stream");
    *stream = new CUstream_st;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

// Waits for the stream's work, as the hardware's does not.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return release_call("cudaStreamDestroy", [&] {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api_call("cudaStreamSynchronize", [&] {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->thread.wait_idle();
    return device_error();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api_call("cudaStreamQuery", [&] {
    return stream->pending.load(std::memory_order_acquire) == 0 ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return api_call("cudaStreamWaitEvent", [&] {
    const std::lock_guard lock(event->mutex);
    if (event->points == nullptr) return cudaSuccess;
    stream->post([points = event->points, point = event->point] { points->wait_for(point); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api_call("cudaEventCreateWithFlags", [&] {
    *event = new CUevent_st((flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return release_call("cudaEventDestroy", [&] {
    delete event;
    return cudaSuccess;
  });
}

// A point is reached in a failed device too: waits end.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call("cudaEventRecord", [&] {
    const std::lock_guard lock(event->mutex);
    event->points = stream->points;
    event->point = stream->points->next();
    stream->post([points = event->points, point = event->point] { points->reach(point); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_call("cudaEventQuery", [&] {
    const std::lock_guard lock(event->mutex);
    return event->points == nullptr || event->points->reached(event->point) ? cudaSuccess
                                                                            : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_call("cudaEventSynchronize", [&] {
    std::unique_lock lock(event->mutex);
    const auto points = event->points;
    const std::uint32_t point = event->point;
    lock.unlock();
    if (points != nullptr) points->wait_for(point);
    return device_error();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", [&] {
    if (!begin->timing || !end->timing) return cudaErrorInvalidResourceHandle;
    if (begin->points == nullptr || end->points == nullptr) return cudaErrorInvalidResourceHandle;
    if (!begin->points->reached(begin->point) || !end->points->reached(end->point)) {
      return cudaErrorNotReady;
    }
    *milliseconds = 1e-6f * static_cast<float>(end->points->time_ns(end->point) -
                                               begin->points->time_ns(begin->point));
    return cudaSuccess;
  });
}
