#include "kernels/device/cuda/cuda_stream.h"

#include "kernels/base/error.h"
#include "kernels/device/copy_check.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata {
namespace {

using cuda::check;

CudaEvent& as_cuda(Event& event) {
  auto* const cuda_event = dynamic_cast<CudaEvent*>(&event);
  STRATA_CHECK(cuda_event != nullptr, "an event of another device");
  return *cuda_event;
}

}  // namespace

CudaEvent::CudaEvent(CudaDevice& device) : device_(device) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
        "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() { cuda::ignore(cudaEventDestroy(event_)); }

void CudaEvent::synchronize() {
  device_.guarded([&] { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); });
  device_.failure().check();
}

// A device that has failed completes nothing, and nobody is to wait for it.
bool CudaEvent::done() const {
  bool done = true;
  device_.guarded([&] {
    const cudaError_t result = cudaEventQuery(event_);
    done = result != cudaErrorNotReady;
    if (done) {
      check(result, "cudaEventQuery");
    } else {
      (void)cudaGetLastError();
    }
  });
  return done;
}

CudaStream::CudaStream(CudaDevice& device, std::string name, StreamPriority priority)
    : device_(device), name_(std::move(name)), host_tasks_(device.failure()) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? greatest : least),
        "cudaStreamCreateWithPriority");
  if (device.tracer() != nullptr || device.op_observer() != nullptr) {
    spans_ = std::make_unique<StreamSpans>(device, stream_, name_);
  }
}

// Work that is still enqueued uses the host tasks: it ends first.
CudaStream::~CudaStream() {
  device_.guarded([&] {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    spans_.reset();
    check(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  });
}

void CudaStream::copy(void* destination, const void* source, std::int64_t bytes) {
  if (bytes == 0) return;
  check_copy(destination, source, bytes);
  enqueue({SpanKind::other, "copy", bytes}, [&](cudaStream_t stream) {
    check(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                          stream),
          "cudaMemcpyAsync");
  });
}

void CudaStream::fill_zero(void* destination, std::int64_t bytes) {
  if (bytes == 0) return;
  STRATA_CHECK(bytes > 0, "fill of {} bytes", bytes);
  enqueue({SpanKind::other, "fill", bytes}, [&](cudaStream_t stream) {
    check(cudaMemsetAsync(destination, 0, static_cast<std::size_t>(bytes), stream),
          "cudaMemsetAsync");
  });
}

// Once the run has failed too: whoever waits is released.
void CudaStream::record(Event& event) {
  CudaEvent& cuda_event = as_cuda(event);
  device_.guarded([&] { check(cudaEventRecord(cuda_event.event_, stream_), "cudaEventRecord"); });
}

void CudaStream::wait(Event& event, WaitFor reason) {
  if (static_cast<int>(reason) == device_.skip_wait_kind()) return;
  CudaEvent& cuda_event = as_cuda(event);
  enqueue({SpanKind::other, name_of(reason)}, [&](cudaStream_t stream) {
    check(cudaStreamWaitEvent(stream, cuda_event.event_, 0), "cudaStreamWaitEvent");
  });
}

void CudaStream::host_task(HostTask task) {
  enqueue({SpanKind::other, "host task"},
          [&](cudaStream_t stream) { host_tasks_.enqueue(stream, std::move(task)); });
}

void CudaStream::synchronize() {
  device_.guarded([&] { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); });
  if (spans_ != nullptr) spans_->record_ended();
  device_.failure().check();
}

CudaStream& as_cuda(Stream& stream) {
  STRATA_CHECK(stream.device().kind() == DeviceKind::cuda, "stream {} is not a GPU's",
               stream.name());
  return static_cast<CudaStream&>(stream);
}

}  // namespace strata
