#include "kernels/device/cuda/gpu_clock.h"

#include <cmath>

#include "kernels/base/trace.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata {
namespace {

using cuda::check;

}  // namespace

GpuClock::GpuClock(std::int64_t base_age_max_ns) : base_age_max_ns_(base_age_max_ns) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (Base& base : bases_) {
    check(cudaEventCreateWithFlags(&base.event, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  set(bases_[0]);
}

GpuClock::~GpuClock() {
  for (const Base& base : bases_) (void)cudaEventDestroy(base.event);
  (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

// It happens between two looks at the clock.
void GpuClock::set(Base& base) {
  const std::int64_t before_ns = Tracer::now_ns();
  check(cudaEventRecord(base.event, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(base.event), "cudaEventSynchronize");
  base.ns = before_ns + (Tracer::now_ns() - before_ns) / 2;
}

int GpuClock::take_base() {
  const std::lock_guard lock(mutex_);
  const int other = 1 - current_;
  const bool is_old = Tracer::now_ns() - bases_[current_].ns > base_age_max_ns_;
  if (is_old && bases_[other].users == 0) {
    set(bases_[other]);
    current_ = other;
  }
  ++bases_[current_].users;
  return current_;
}

void GpuClock::give_back(int base) {
  const std::lock_guard lock(mutex_);
  --bases_[base].users;
}

std::int64_t GpuClock::ns(int base, cudaEvent_t event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, bases_[base].event, event), "cudaEventElapsedTime");
  return bases_[base].ns + std::llround(1e6 * static_cast<double>(milliseconds));
}

}  // namespace strata
