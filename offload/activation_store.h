// ActivationStore: the activation records of a pass, on the tier the plan chose.
//
// A *walk* opens and closes records in an order known before it begins (record_schedule.h). On the
// device tier every record has its own memory and nothing moves. On the host and NVMe tiers records
// share a few device slots; what must be loaded is loaded a turn ahead, what must be stored is
// stored behind, each by a thread of its own:
//
//   open for reading:  tier ─(NVMe read ▶ staging)─ copy ─▶ slot ─▶ compute
//   after writing:     slot ─ copy ─▶ staging (host tier: the record) ─(NVMe write)─▶ tier
//
//   slot:  idle ──turn──▶ loading ──▶ open ──close──▶ idle, or storing ──▶ idle
//
// Streams: "act in", "act out". Compute must touch a record on the compute stream only, between
// open and close. Thread contract: all functions are called by one thread.
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
#include "offload/plan.h"
#include "offload/state_store.h"

namespace strata::offload {

class ActivationStore {
 public:
  ActivationStore(StateStore& store, Device& device, Stream& compute, FailureLatch& failure,
                  Tracer* tracer = nullptr);
  ~ActivationStore();

  // Starts a walk. `accesses` is its schedule, empty on the device tier.
  void begin(std::span<const ScheduledAccess> accesses);
  // The next access of the walk, which must be of this record. Returns its device memory; the
  // compute stream waits until it is there.
  std::byte* open(int record);
  // Closes every record opened since the last call: the end of a turn.
  void end_turn();
  void end();

 private:
  struct Slot {
    std::byte* data = nullptr;  // on the device
    std::unique_ptr<Event> loaded;
    std::unique_ptr<Event> written;
    std::unique_ptr<Event> emptied;   // the copy out is done
    std::unique_ptr<Event> released;  // the last turn that used it is done
    PinnedBuffer staging;             // NVMe tier
    int storing = 0;                  // copies out that are not finished
  };
  AlignedSpan host_side(int record, int slot) const;
  void load_all();
  void load(const ScheduledAccess& access);
  void store(int record, int slot);

  StateStore& store_;
  const Plan& plan_;
  Stream& compute_;
  FailureLatch& failure_;
  TraceTrack load_row_;
  TraceTrack store_row_;
  TraceTrack main_row_;
  bool on_device_;
  int lookahead_;
  DeviceBuffer memory_;                // records, or slots
  PinnedBuffer host_records_;          // host tier
  std::vector<std::int64_t> offsets_;  // of records in memory_ or host_records_
  std::vector<Slot> slots_;
  std::vector<int> record_storing_;  // stores in progress, per record
  std::unique_ptr<Stream> in_;       // streams end before what they touch
  std::unique_ptr<Stream> out_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ScheduledAccess> accesses_;
  std::size_t opened_ = 0;
  std::size_t closed_ = 0;
  std::size_t loaded_ = 0;  // accesses the loader has dealt with
  int turn_ = 0;            // the turn that is open

  VerifiedReads load_io_;
  io::IoGroup store_io_;
  TaskThread loader_;
  TaskThread storer_;
};

}  // namespace strata::offload
