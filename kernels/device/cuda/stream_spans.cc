#include "kernels/device/cuda/stream_spans.h"

#include <thread>

#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata {
namespace {

using cuda::check;

}  // namespace

StreamSpans::StreamSpans(CudaDevice& device, cudaStream_t stream, const std::string& stream_name)
    : device_(device), stream_(stream), track_(device.tracer(), stream_name), spans_(kSpans) {
  (void)device.clock();
  for (Span& span : spans_) {
    for (cudaEvent_t* const event : {&span.begin, &span.end}) {
      check(cudaEventCreateWithFlags(event, cudaEventBlockingSync), "cudaEventCreateWithFlags");
    }
  }
  if (track_.tracer != nullptr) track_.tracer->add_source(*this);
}

StreamSpans::~StreamSpans() {
  record_ended();
  if (track_.tracer != nullptr) track_.tracer->remove_source(*this);
  for (const Span& span : spans_) {
    (void)cudaEventDestroy(span.begin);
    (void)cudaEventDestroy(span.end);
  }
  (void)cudaGetLastError();
}

StreamSpans::Span& StreamSpans::begin(const SpanLabel& label) {
  std::unique_lock lock(mutex_);
  while (begun_ - taken_ == kSpans) {
    const Span& oldest = at(taken_);
    if (oldest.is_enqueued) {
      check(cudaEventSynchronize(oldest.end), "cudaEventSynchronize");
      take_ended();
    } else {  // another thread is about to
      lock.unlock();
      std::this_thread::yield();
      device_.failure().check();
      lock.lock();
    }
  }
  Span& span = at(begun_);
  span.label = label;
  span.base = &device_.clock().take_base();
  span.is_enqueued = false;
  ++begun_;
  check(cudaEventRecord(span.begin, stream_), "cudaEventRecord");
  return span;
}

void StreamSpans::end(Span& span) {
  const std::lock_guard lock(mutex_);
  check(cudaEventRecord(span.end, stream_), "cudaEventRecord");
  span.is_enqueued = true;
}

void StreamSpans::record_ended() {
  device_.guarded([&] {
    const std::lock_guard lock(mutex_);
    take_ended();
  });
}

void StreamSpans::take_ended() {
  for (; taken_ < begun_ && at(taken_).is_enqueued; ++taken_) {
    const cudaError_t result = cudaEventQuery(at(taken_).end);
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return;
    }
    check(result, "cudaEventQuery");
    tell(at(taken_));
    device_.clock().give_back(*at(taken_).base);
  }
}

void StreamSpans::tell(const Span& span) {
  const auto& [kind, name, bytes] = span.label;
  const std::int64_t begin_ns = GpuClock::ns(*span.base, span.begin);
  const std::int64_t end_ns = GpuClock::ns(*span.base, span.end);
  if (track_.tracer != nullptr) {
    track_.tracer->record(track_.id, name, begin_ns, end_ns, bytes);
  }
  OpObserver* const observer = device_.op_observer();
  if (observer != nullptr && kind == SpanKind::op) {
    observer->op_ran(name, 1e-9 * static_cast<double>(end_ns - begin_ns));
  }
}

}  // namespace strata
