// WeightStreamer: brings the weights of each unit to the device ahead of use, and leases them.
//
// A *sequence* (one pass, an evaluation, a draw of a token) visits units in an order known before
// it begins. A thread of its own, "fetch", walks the same order up to `prefetch` uses ahead of
// compute:
//
//   NVMe ─read─▶ staging ─(pending update)─▶ copy ─▶ device slot ─all-gather─▶ leased to compute
//
// A shard whose optimizer update is pending gets it here, in the shadow of the forward, before
// anyone sees the weights: that is what makes the deferred optimizer exact for every purpose.
//
// A use:   waiting ──fetched──▶ ready ──acquire──▶ leased ──release──▶ slot free again
//
// Streams: "h2d" (shards to the device, and back where they live there), "gather" (all-gathers;
// only with several ranks). The lease makes the compute stream wait; compute must read the weights
// on that stream only, between acquire and release. Thread contract: begin, acquire, release and
// end are called by one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/storage.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"
#include "kernels/base/trace.h"
#include "kernels/device/device.h"
#include "offload/comm/communicator.h"
#include "offload/lease.h"
#include "offload/plan.h"
#include "offload/state_store.h"

namespace strata::offload {

// The optimizer, as the streamer sees it.
class PendingUpdates {
 public:
  virtual ~PendingUpdates() = default;
  virtual bool pending(int unit) const = 0;
  // Updates the shard's working weights in place (host memory) and the rest of its state on its
  // tiers. Called in unit order, on the fetch thread. The caller writes the weights to their tier
  // and ends the update in the StateStore.
  virtual void apply(int unit, AlignedSpan weights) = 0;
  // Of a unit that is updated on the device, instead: enqueues the update of all its state.
  virtual void apply_on_device(int unit, Stream& stream) = 0;
};

class WeightStreamer {
 public:
  // All references must outlive the streamer. Reserves slots and staging as planned.
  WeightStreamer(StateStore& store, Device& device, Stream& compute, comm::Communicator& comm,
                 FailureLatch& failure, Tracer* tracer);
  ~WeightStreamer();

  // Starts a sequence. `updates` may be null.
  void begin(std::span<const ScheduledUse> uses, PendingUpdates* updates);

  // The next use of the sequence, which must be this unit. Blocks until its copy is enqueued, not
  // until it is done: the compute stream waits for that.
  Lease acquire(int unit);

  // Ends a sequence whose uses were all acquired and released.
  void end();

  // Waits until every updated weight is on its tier.
  void flush();

 private:
  friend class Lease;
  struct Staging {
    PinnedBuffer buffer;
    std::unique_ptr<Event> copied;  // its content is on the device
    int unit = -1;                  // whose write-back may still read it
  };
  struct Slot {
    std::unique_ptr<Event> ready;
    std::unique_ptr<Event> free;
    std::unique_ptr<Event> shard_copied;
    int leases = 0;
  };
  struct Use {  // what the fetch thread keeps per use in flight
    int staging = -1;
  };

  void release(int slot);
  void fetch_all();
  void wait_allowed(std::size_t use);
  void issue_reads(std::size_t current);
  int take_staging();
  void fetch(std::size_t use);
  AlignedSpan update(int unit, int staging);
  void update_on_device(int unit);
  void gather(const ScheduledUse& use, const std::byte* shard);
  bool reads_nvme(const ScheduledUse& use) const;
  bool awaits_update(std::size_t current, std::size_t use) const;
  AlignedSpan staged(int unit, int staging) const;
  std::int64_t shard_bytes(int unit) const;
  void count(Account account, Link link, std::int64_t bytes);

  StateStore& store_;
  const Plan& plan_;
  Device& device_;
  Stream& compute_;
  comm::Communicator& comm_;
  FailureLatch& failure_;
  TraceTrack row_;  // of the fetch thread
  TraceTrack main_row_;

  DeviceBuffer slot_memory_;
  std::int64_t slot_bytes_ = 0;
  std::vector<Slot> slots_;
  std::vector<Staging> staging_;
  std::vector<VerifiedReads> reads_;  // per staging buffer
  std::vector<io::IoGroup> writes_;   // per unit: the write-back of updated weights
  std::unique_ptr<Event> resident_ready_;
  std::unique_ptr<Stream> h2d_;  // streams end before what they touch
  std::unique_ptr<Stream> gather_;

  // Owned by the fetch thread during a sequence.
  std::vector<Use> in_flight_;
  std::size_t issued_ = 0;
  std::size_t staging_taken_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ScheduledUse> uses_;
  PendingUpdates* updates_ = nullptr;
  std::size_t acquired_ = 0;
  std::size_t fetched_ = 0;

  TaskThread fetch_thread_;  // last: it uses everything above
};

}  // namespace strata::offload
