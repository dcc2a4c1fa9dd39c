#include "kernels/device/cuda/gpu_clock.h"

#include <cmath>

#include "kernels/base/trace.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata {
namespace {

using cuda::check;

// A base is as exact as the two looks at the clock around it are close.
constexpr std::int64_t kCloseNs = 50'000;
constexpr int kAttempts = 8;

}  // namespace

GpuClock::GpuClock(std::int64_t base_age_max_ns) : base_age_max_ns_(base_age_max_ns) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  current_ = &unused_base();
  set(*current_);
}

GpuClock::~GpuClock() {
  for (const Base& base : bases_) (void)cudaEventDestroy(base.event);
  (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

GpuClock::Base& GpuClock::unused_base() {
  for (Base& base : bases_) {
    if (base.users == 0 && &base != current_) return base;
  }
  Base& added = bases_.emplace_back();
  check(cudaEventCreateWithFlags(&added.event, cudaEventDefault), "cudaEventCreateWithFlags");
  return added;
}

void GpuClock::set(Base& base) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::int64_t before_ns = Tracer::now_ns();
    check(cudaEventRecord(base.event, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(base.event), "cudaEventSynchronize");
    const std::int64_t window_ns = Tracer::now_ns() - before_ns;
    base.ns = before_ns + window_ns / 2;
    if (window_ns <= kCloseNs) return;
  }
}

GpuClock::Base& GpuClock::take_base() {
  const std::lock_guard lock(mutex_);
  if (Tracer::now_ns() - current_->ns > base_age_max_ns_) {
    Base& next = unused_base();
    set(next);
    current_ = &next;
  }
  ++current_->users;
  return *current_;
}

void GpuClock::give_back(Base& base) {
  const std::lock_guard lock(mutex_);
  --base.users;
}

std::int64_t GpuClock::ns(const Base& base, cudaEvent_t event) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, base.event, event), "cudaEventElapsedTime");
  return base.ns + std::llround(1e6 * static_cast<double>(milliseconds));
}

}  // namespace strata
