// CudaStream and CudaEvent: Stream and Event of a CudaDevice. Ops and collectives enqueue through
// CudaStream::launch(), as those of the cpu device do through CpuStream::launch().
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/host_tasks.h"
#include "kernels/device/cuda/stream_spans.h"

namespace strata {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaDevice& device);
  ~CudaEvent() override;
  void synchronize() override;
  bool done() const override;

 private:
  friend class CudaStream;
  CudaDevice& device_;
  cudaEvent_t event_ = nullptr;
};

enum class StreamPriority : std::uint8_t { normal, high };

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, std::string name, StreamPriority priority);
  ~CudaStream() override;

  Device& device() override { return device_; }
  const std::string& name() const override { return name_; }
  void copy(void* destination, const void* source, std::int64_t bytes) override;
  void fill_zero(void* destination, std::int64_t bytes) override;
  void record(Event& event) override;
  void wait(Event& event, WaitFor reason) override;
  void host_task(HostTask task) override;
  void synchronize() override;

  // Calls body(cudaStream_t), which enqueues an op, with the GPU current; not once the run has
  // failed. What it throws fails the run. `name` is a literal, for the trace.
  template <typename Body>
  void launch(const char* name, Body&& body) {
    enqueue({SpanKind::op, name}, body);
  }

 private:
  template <typename Body>
  void enqueue(const SpanLabel& label, const Body& body) {
    if (device_.failure().failed()) return;
    device_.guarded([&] {
      if (spans_ == nullptr) return body(stream_);
      StreamSpans::Span& span = spans_->begin(label);
      body(stream_);
      spans_->end(span);
    });
  }

  CudaDevice& device_;
  std::string name_;
  cudaStream_t stream_ = nullptr;
  HostTasks host_tasks_;
  std::unique_ptr<StreamSpans> spans_;  // null: nobody wants any
};

// The stream as a CUDA stream; a stream of another device is a programmer error.
CudaStream& as_cuda(Stream& stream);

}  // namespace strata
