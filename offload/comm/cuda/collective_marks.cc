#include "offload/comm/cuda/collective_marks.h"

#include <chrono>
#include <thread>

#include "kernels/device/cuda/cuda_error.h"

namespace strata::comm {
namespace {

using cuda::check;

constexpr std::chrono::milliseconds kLook{1};

void record(cudaStream_t stream, cudaEvent_t event, std::atomic<std::uint64_t>& enqueued) {
  check(cudaEventRecord(event, stream), "cudaEventRecord");
  enqueued.fetch_add(1, std::memory_order_release);
}

}  // namespace

CollectiveMarks::CollectiveMarks(DeviceCollectives::Kind& progress, FailureLatch& failure)
    : progress_(progress), failure_(failure) {
  for (Events* const events : {&begins_, &ends_}) {
    for (cudaEvent_t& event : *events) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
  }
}

// An error here is one that the run has ended with.
CollectiveMarks::~CollectiveMarks() {
  for (const Events* const events : {&begins_, &ends_}) {
    for (const cudaEvent_t event : *events) (void)cudaEventDestroy(event);
  }
  (void)cudaGetLastError();
}

void CollectiveMarks::begin(cudaStream_t stream) {
  const std::uint64_t number = begins_enqueued_.load(std::memory_order_relaxed);
  while (number - progress_.complete.load(std::memory_order_acquire) >= kSlots) {
    failure_.check();
    std::this_thread::sleep_for(kLook);
  }
  record(stream, begins_[number % kSlots], begins_enqueued_);
}

void CollectiveMarks::end(cudaStream_t stream) {
  const std::uint64_t number = ends_enqueued_.load(std::memory_order_relaxed);
  record(stream, ends_[number % kSlots], ends_enqueued_);
}

void CollectiveMarks::look() {
  advance(progress_.begun, begins_enqueued_.load(std::memory_order_acquire), begins_);
  advance(progress_.complete, ends_enqueued_.load(std::memory_order_acquire), ends_);
}

void CollectiveMarks::finish() {
  progress_.begun.store(begins_enqueued_.load(std::memory_order_acquire));
  progress_.complete.store(ends_enqueued_.load(std::memory_order_acquire));
}

void CollectiveMarks::advance(std::atomic<std::uint64_t>& reached, std::uint64_t enqueued,
                              const Events& events) {
  std::uint64_t number = reached.load(std::memory_order_relaxed);
  for (; number < enqueued; ++number) {
    const cudaError_t result = cudaEventQuery(events[number % kSlots]);
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();
      break;
    }
    check(result, "cudaEventQuery");
  }
  reached.store(number, std::memory_order_release);
}

}  // namespace strata::comm
