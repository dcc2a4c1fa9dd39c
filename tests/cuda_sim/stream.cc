#include "cuda_sim/stream.h"

#include <chrono>
#include <mutex>
#include <set>

#include "cuda_sim/faults.h"

namespace strata::cuda_sim {
namespace {

std::mutex streams_mutex;
std::set<CUstream_st*> streams;

// `point` and the one that is next in its slot, and so on.
bool at_or_after(std::uint32_t reached, std::uint32_t point) {
  return static_cast<std::int32_t>(reached - point) >= 0;
}

}  // namespace

void wait_for_all_streams() {
  const std::lock_guard lock(streams_mutex);
  for (CUstream_st* const stream : streams) stream->thread.wait_idle();
}

void Points::reach(std::uint32_t point) {
  Slot& slot = slots_[point % kSlots];
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  slot.time_ns.store(std::chrono::nanoseconds(now).count(), std::memory_order_relaxed);
  slot.point.store(point, std::memory_order_release);
  slot.point.notify_all();
}

bool Points::reached(std::uint32_t point) const {
  return at_or_after(slots_[point % kSlots].point.load(std::memory_order_acquire), point);
}

void Points::wait_for(std::uint32_t point) const {
  const auto& slot = slots_[point % kSlots].point;
  for (std::uint32_t at = slot.load(std::memory_order_acquire); !at_or_after(at, point);
       at = slot.load(std::memory_order_acquire)) {
    slot.wait(at, std::memory_order_acquire);
  }
}

std::int64_t Points::time_ns(std::uint32_t point) const {
  return slots_[point % kSlots].time_ns.load(std::memory_order_relaxed);
}

bool begin_work() {
  if (device_error() != cudaSuccess) return false;
  const auto fault = static_cast<cudaError_t>(take_call_fault(kWork));
  if (fault != cudaSuccess) fail_device(fault);
  return fault == cudaSuccess;
}

cudaError_t check_size(const cuda::LaunchSize& size) {
  constexpr std::int64_t kBlocksMax = 0x7fff'ffff;
  constexpr std::int64_t kBlocksMaxAcross = 65535;
  const auto between = [](std::int64_t value, std::int64_t max) {
    return value > 0 && value <= max;
  };
  if (!between(size.blocks_x, kBlocksMax) || !between(size.blocks_y, kBlocksMaxAcross) ||
      !between(size.blocks_z, kBlocksMaxAcross) || !between(size.threads, kBlockThreadsMax)) {
    return cudaErrorInvalidConfiguration;
  }
  if (size.shared_bytes < 0 || size.shared_bytes > kSharedBytesMax) return cudaErrorInvalidValue;
  if (size.threads % kLanes != 0) {
    report("launch at {}:{} of {} threads: blocks are whole warps", size.where.file_name(),
           size.where.line(), size.threads);
  }
  return cudaSuccess;
}

void run_grid(const cuda::LaunchSize& size, Block::Kernel kernel, const void* closure) {
  thread_local Block block;
  block.run_grid(size, kernel, closure);
}

}  // namespace strata::cuda_sim

using namespace strata::cuda_sim;

CUstream_st::CUstream_st() {
  const std::lock_guard lock(streams_mutex);
  streams.insert(this);
}

CUstream_st::~CUstream_st() {
  const std::lock_guard lock(streams_mutex);
  streams.erase(this);
}
