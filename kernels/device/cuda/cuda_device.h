// The `cuda` device: one GPU.
//
// Device memory is one cudaMalloc() of the budget's size less what context and libraries took,
// which is charged first; nothing else allocates there. Streams and events are CUDA's
// (cuda_stream.h), pinned memory is page memory registered with CUDA, of exactly the size asked
// for.
//
// Failure, as of the cpu device: what a call or a host task throws goes to the FailureLatch; from
// then on streams enqueue nothing but records, host tasks are dropped, waits end and synchronize()
// rethrows the failure. Copies and kernels that the GPU already has, it runs.
//
// Any thread may use it: each call makes the GPU the thread's current one.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/base/failure_latch.h"
#include "kernels/device/cuda/gpu_clock.h"
#include "kernels/device/cuda_backend.h"
#include "kernels/device/device.h"
#include "kernels/device/free_pieces.h"

namespace strata {

class CudaDevice final : public Device {
 public:
  // All references must outlive the device. Throws OutOfBudget or CudaError.
  CudaDevice(const CudaDeviceOptions& options, Budget& host_budget, FailureLatch& failure);
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override { return "cuda, " + options_.gpu.name; }
  PinnedBuffer allocate_pinned(std::string tag, std::int64_t bytes) override;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override;

  FailureLatch& failure() { return failure_; }
  Tracer* tracer() { return options_.tracer; }
  int skip_wait_kind() const { return options_.skip_wait_kind; }
  GpuClock& clock();  // made when it is first asked for

  // Of the calling thread.
  void make_current() const;
  // Runs body() with the GPU current; what it throws fails the run. For calls of a running step.
  template <typename Body>
  void guarded(Body&& body) {
    try {
      make_current();
      body();
    } catch (...) {
      failure_.set(std::current_exception());
    }
  }

 private:
  std::byte* arena_allocate(std::int64_t bytes) override;
  void arena_free(std::byte* data, std::int64_t bytes) noexcept override;

  CudaDeviceOptions options_;
  FailureLatch& failure_;
  Reservation context_;
  FreePieces free_;
  std::byte* arena_ = nullptr;
  std::once_flag clock_made_;
  std::unique_ptr<GpuClock> clock_;
};

}  // namespace strata
