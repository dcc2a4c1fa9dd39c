// GpuClock: when an event happened on the GPU, on the clock of spans (Tracer::now_ns()).
//
// Events tell but the time from one to the other, in floats. So times are counted from a base: an
// event on an idle stream whose time the host knows to some microseconds. One of more than a second
// ago is followed by another, so that neither rounding nor two clocks that drift apart matter; an
// event is counted from the base that was there when it was recorded. There are as many bases as
// are in use at once, and one.
//
// Calls of CUDA: the GPU is current. Throws CudaError. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <mutex>

namespace strata {

class GpuClock {
 public:
  struct Base {
    cudaEvent_t event = nullptr;
    std::int64_t ns = 0;
    int users = 0;
  };

  explicit GpuClock(std::int64_t base_age_max_ns = 1'000'000'000);
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;

  // The base for events that are recorded from now on; in use until it is given back.
  Base& take_base();
  void give_back(Base& base);
  // Of an event that has happened.
  static std::int64_t ns(const Base& base, cudaEvent_t event);

 private:
  Base& unused_base();
  void set(Base& base);

  std::int64_t base_age_max_ns_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  std::deque<Base> bases_;
  Base* current_ = nullptr;  // the one to take
};

}  // namespace strata
