// StreamSpans: what a stream does on the GPU and when, for the tracer and for who observes ops.
//
// A span lies between two timing events around what is enqueued. There is a fixed number of them,
// used in turn; when those that have ended are asked for, or when none is left, their times are
// read and they are free again.
//
//   free ──begin()──▶ being enqueued ──end()──▶ on the GPU ──record_ended(), or none is left──▶
//   free
//
// Of a wait the span is what the stream lost by it. Spans that follow each other keep some
// microseconds between them, which is what two events cost the stream.
//
// Calls of CUDA: the GPU is current. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/base/trace.h"
#include "kernels/device/cuda/gpu_clock.h"

namespace strata {

class CudaDevice;

enum class SpanKind : std::uint8_t { op, other };

struct SpanLabel {
  SpanKind kind = SpanKind::other;
  const char* name = nullptr;  // a literal
  std::int64_t bytes = -1;
};

class StreamSpans final : public SpanSource {
 public:
  struct Span {
    SpanLabel label;
    GpuClock::Base* base = nullptr;
    bool is_enqueued = false;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };

  // Both outlive it.
  StreamSpans(CudaDevice& device, cudaStream_t stream, const std::string& stream_name);
  ~StreamSpans() override;
  StreamSpans(const StreamSpans&) = delete;
  StreamSpans& operator=(const StreamSpans&) = delete;

  // Waits for the GPU while none is free. Throws CudaError.
  Span& begin(const SpanLabel& label);
  void end(Span& span);

  // What fails, fails the run.
  void record_ended() override;

 private:
  static constexpr std::uint64_t kSpans = 512;

  Span& at(std::uint64_t number) { return spans_[number % kSpans]; }
  void take_ended();
  void tell(const Span& span);

  CudaDevice& device_;
  cudaStream_t stream_;
  TraceTrack track_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::uint64_t begun_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace strata
