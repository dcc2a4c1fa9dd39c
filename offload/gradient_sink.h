// GradientSink: takes each unit's gradients off the device as soon as backward has them.
//
//   slot: free ──open──▶ filled by backward ──close──▶ reduce-scatter ▶ copy to the host ▶ free
//                                                                          └▶ GradientConsumer
//
// A gradient whose unit is updated on the device does not go to the host: the consumer takes it
// there.
//
// A slot holds a unit's whole gradient in f32. Closing it hands it to the thread "gradients": with
// several ranks the parts are summed over ranks (in rank order), and this rank's shard is copied to
// host memory that the consumer names; the slot is free again once that copy is done. A unit may
// contribute several times before its gradient is final (several passes; a tied table). The
// gradient of a frozen unit goes nowhere: its slot is free as soon as it is closed.
//
// Streams: "reduce" (only with several ranks), "d2h".
// Thread contract: open, close and drain are called by one thread; the consumer by "gradients".
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"
#include "kernels/base/trace.h"
#include "kernels/device/device.h"
#include "offload/comm/communicator.h"
#include "offload/plan.h"

namespace strata::offload {

struct Contribution {
  int unit = 0;
  bool first = true;  // nothing was accumulated for this step yet
  bool last = true;   // the gradient is final after it
};

class GradientConsumer {
 public:
  virtual ~GradientConsumer() = default;
  // Where the reduced shard (f32) is to be copied: pinned memory that nothing else uses until
  // landed(). May block until there is some.
  virtual float* landing(const Contribution& contribution) = 0;
  virtual void landed(const Contribution& contribution) = 0;
  // Of a unit that is updated on the device, instead of landing(): enqueues on the stream what
  // takes the reduced shard, whose memory is free behind it. May wait for the stream.
  virtual void take_on_device(const Contribution& contribution, Stream& stream, float* shard) = 0;
};

class GradientSink {
 public:
  GradientSink(const Plan& plan, Device& device, Stream& compute, comm::Communicator& comm,
               GradientConsumer& consumer, Ledger& ledger, FailureLatch& failure, Tracer* tracer);

  // The slot to fill on the compute stream. It holds old values, which backward overwrites; only
  // the padding behind the unit is zeroed here.
  float* open(int unit);
  // Everything enqueued on compute so far belongs to the gradient.
  void close(const Contribution& contribution);
  // Blocks until every closed slot was consumed.
  void drain();

 private:
  struct Slot {
    std::unique_ptr<Event> filled;
    std::unique_ptr<Event> reduced;
    std::unique_ptr<Event> emptied;
    bool busy = false;  // until the copy out is enqueued
  };
  void take_out(int slot, const Contribution& contribution);
  float* slot_data(int slot) const;

  const Plan& plan_;
  Stream& compute_;
  comm::Communicator& comm_;
  GradientConsumer& consumer_;
  Ledger& ledger_;
  FailureLatch& failure_;
  TraceTrack row_;  // of the gradient thread
  TraceTrack main_row_;
  DeviceBuffer memory_;
  std::array<Slot, kGradientSlots> slots_;
  std::unique_ptr<Stream> d2h_;  // streams end before what they touch
  std::unique_ptr<Stream> reduce_;
  int next_ = 0;   // slot of the next open()
  int open_ = -1;  // the slot that is open
  std::mutex mutex_;
  std::condition_variable changed_;
  TaskThread thread_;
};

}  // namespace strata::offload
