// WorkerScratch: device memory in equal parts, one per worker, for what a tile keeps while it runs.
// ScratchFrame hands a worker's part out piece by piece; nothing is ever given back: the next tile
// starts a new frame.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/base/annotate.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/device.h"

namespace strata::ops::cpu {

inline constexpr std::int64_t kScratchAlignmentBytes = 64;

// Bytes that a frame uses for a piece.
template <typename T>
constexpr std::int64_t scratch_bytes(std::int64_t elements) {
  return round_up(elements * static_cast<std::int64_t>(sizeof(T)), kScratchAlignmentBytes);
}

class ScratchFrame {
 public:
  ScratchFrame(std::byte* data, std::int64_t bytes) : data_(data), left_bytes_(bytes) {}

  // Uninitialised. Larger than what is left: an op was called with sizes beyond CpuOpsLimits.
  template <typename T>
  T* take(std::int64_t elements) {
    const std::int64_t bytes = scratch_bytes<T>(elements);
    STRATA_CHECK(bytes <= left_bytes_,
                 "an op is larger than the CpuOpsLimits it was attached with");
    left_bytes_ -= bytes;
    return reinterpret_cast<T*>(std::exchange(data_, data_ + bytes));
  }

 private:
  std::byte* data_;
  std::int64_t left_bytes_;
};

class WorkerScratch {
 public:
  // `bytes_per_worker` is a multiple of kScratchAlignmentBytes. Throws OutOfBudget.
  WorkerScratch(Device& device, std::string tag, std::int64_t bytes_per_worker, int worker_slots)
      : bytes_per_worker_(bytes_per_worker),
        memory_(device.allocate(std::move(tag), bytes_per_worker * worker_slots)) {}

  ScratchFrame frame(int worker) const {
    std::byte* const data = memory_.data() + worker * bytes_per_worker_;
    // For all that follows it: two tiles in one frame at once are a race.
    annotate_write(data, kScratchAlignmentBytes);
    return {data, bytes_per_worker_};
  }

 private:
  std::int64_t bytes_per_worker_;
  DeviceBuffer memory_;
};

}  // namespace strata::ops::cpu
