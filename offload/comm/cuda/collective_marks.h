// CollectiveMarks: events around the collectives of one kind, in the order of their stream, which
// tell how far it is. One thread at a time enqueues; the watcher looks.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "kernels/base/failure_latch.h"
#include "offload/comm/device_collectives.h"

namespace strata::comm {

class CollectiveMarks {
 public:
  // With the GPU current, here and in all that follows.
  CollectiveMarks(DeviceCollectives::Kind& progress, FailureLatch& failure);
  ~CollectiveMarks();
  CollectiveMarks(const CollectiveMarks&) = delete;
  CollectiveMarks& operator=(const CollectiveMarks&) = delete;

  // Waits while kSlots collectives are not complete. Throws the run's failure.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

  // By the watcher: updates the progress.
  void look();
  // All that was enqueued is complete, though nobody looks any more.
  void finish();

 private:
  static constexpr std::uint64_t kSlots = 256;
  using Events = std::array<cudaEvent_t, kSlots>;

  static void advance(std::atomic<std::uint64_t>& reached, std::uint64_t enqueued,
                      const Events& events);

  DeviceCollectives::Kind& progress_;
  FailureLatch& failure_;
  Events begins_{};
  Events ends_{};
  std::atomic<std::uint64_t> begins_enqueued_{0};
  std::atomic<std::uint64_t> ends_enqueued_{0};
};

}  // namespace strata::comm
