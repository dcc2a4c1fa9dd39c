// Device, Stream, Event: an accelerator's memory and order of work, with CUDA's semantics.
//
//   Device        separate memory with a hard budget, and pinned host memory it can copy from
//   DeviceBuffer  a piece of that memory; move-only
//   PinnedBuffer  host memory for copies and direct I/O; move-only
//   Stream        work runs in the order it was enqueued; enqueueing does not wait for it
//   Event         a point in a stream that other streams, or the host, wait for
//
// Two implementations: `cpu` (cpu_device.h: streams are threads, device memory is an arena) and
// `cuda` (cuda/cuda_device.h). Host code never reads or writes device memory: it copies.
//
// Event semantics are CUDA's: wait(event) waits for the last record() enqueued before the wait();
// waiting for an event that was never recorded does nothing. So whoever waits must have been told,
// on the host, that the record was enqueued.
//
// Memory is reserved at start. Enqueueing, recording and waiting allocate nothing.
// Thread contract: Device's allocation functions are thread-safe; a Stream's enqueueing functions
// are thread-safe, and the order is that of the calls; an Event may be used by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/budget.h"
#include "kernels/base/inplace_function.h"

namespace strata {

class Device;

// Why a stream waits. Names the wait in traces, and lets a test leave one kind out to see that
// ThreadSanitizer finds the race.
enum class WaitFor : std::uint8_t {
  weights_ready,       // a gathered unit is complete on the device
  slot_free,           // the last reader of a device slot is done
  shard_on_device,     // a shard's copy to the device is complete (before it is gathered)
  gradients_ready,     // a unit's gradients are complete
  gradient_reduced,    // a gradient shard is reduced (before it is copied to the host)
  gradient_slot_free,  // a gradient slot was emptied
  activation_ready,    // an activation record is on the device
  activation_written,  // an activation record is complete (before it is copied out)
  activation_free,     // compute is done with an activation slot
  state_written,       // updated state is on the device (before a commit copies it out)
};
inline constexpr int kWaitForKinds = 10;
const char* name_of(WaitFor reason);  // "wait: weights ready"

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  std::byte* data() const { return data_; }  // a device address
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class Device;
  DeviceBuffer(Device& device, Reservation reservation, std::byte* data, std::int64_t bytes);
  void release() noexcept;
  Device* device_ = nullptr;
  Reservation reservation_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Host memory that the device copies from and to without staging, and that direct I/O accepts.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&&) noexcept = default;
  PinnedBuffer& operator=(PinnedBuffer other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(registration_, other.registration_);
    return *this;
  }
  std::byte* data() const { return memory_.data(); }
  std::int64_t bytes() const { return memory_.bytes(); }
  AlignedSpan span() const { return memory_.span(); }
  AlignedSpan span(std::int64_t offset_bytes, std::int64_t bytes) const {
    return memory_.span(offset_bytes, bytes);
  }
  template <typename T>
  T* as() const {
    return memory_.as<T>();
  }

 private:
  friend class Device;
  PinnedBuffer(AlignedBuffer memory, std::shared_ptr<void> registration)
      : memory_(std::move(memory)), registration_(std::move(registration)) {}
  AlignedBuffer memory_;
  std::shared_ptr<void> registration_;  // with the device's driver; ends before the memory does
};

class Event {
 public:
  virtual ~Event() = default;
  // Host wait for the last record() enqueued so far. Rethrows the run's failure, if there is one.
  virtual void synchronize() = 0;
  virtual bool done() const = 0;
};

class Stream {
 public:
  using HostTask = InplaceFunction<96>;
  virtual ~Stream() = default;

  virtual Device& device() = 0;
  virtual const std::string& name() const = 0;

  // Device and pinned host addresses, in any combination; regions must not overlap.
  virtual void copy(void* destination, const void* source, std::int64_t bytes) = 0;
  virtual void fill_zero(void* destination, std::int64_t bytes) = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event, WaitFor reason) = 0;
  // Runs on the stream in order, like cudaLaunchHostFunc: it must not call this Device.
  virtual void host_task(HostTask task) = 0;
  // Host wait for everything enqueued so far. Rethrows the run's failure, if there is one.
  virtual void synchronize() = 0;
};

enum class DeviceKind : std::uint8_t { cpu, cuda };

// Is told of every op that has run, in the order of its stream: for measuring. By whom, and when,
// is the device's; of a stream that was synchronized all of them.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void op_ran(const char* name, double seconds) = 0;
};

class Device {
 public:
  static constexpr std::int64_t kAlignmentBytes = 256;  // of every DeviceBuffer

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DeviceKind kind() const = 0;
  virtual std::string description() const = 0;  // for people: "cpu, 2 threads"

  // `bytes` is rounded up to kAlignmentBytes. Contents are undefined. Throws OutOfBudget.
  DeviceBuffer allocate(std::string tag, std::int64_t bytes);
  virtual PinnedBuffer allocate_pinned(std::string tag, std::int64_t bytes) = 0;

  virtual std::unique_ptr<Stream> make_stream(std::string name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  // Ops keep per-device state here (compiled matmuls, scratch memory): one object of a type, owned
  // by the device, attached at set-up.
  void attach(std::shared_ptr<void> op_state) { op_state_ = std::move(op_state); }
  void* op_state() const { return op_state_.get(); }

  // On a GPU of streams that are made while there is one. Null: nobody. Call while nothing is
  // enqueued.
  void observe_ops(OpObserver* observer) { op_observer_ = observer; }
  OpObserver* op_observer() const { return op_observer_; }

  Budget& device_budget() { return device_budget_; }
  Budget& host_budget() { return host_budget_; }

 protected:
  Device(std::int64_t device_memory_bytes, Budget& host_budget);
  static PinnedBuffer make_pinned(AlignedBuffer memory,
                                  std::shared_ptr<void> registration = nullptr) {
    return {std::move(memory), std::move(registration)};
  }
  // By the derived destructor, first: the state may hold device buffers.
  void release_op_state() { op_state_.reset(); }
  friend class DeviceBuffer;
  virtual std::byte* arena_allocate(std::int64_t bytes) = 0;  // room is already reserved
  virtual void arena_free(std::byte* data, std::int64_t bytes) noexcept = 0;

 private:
  Budget device_budget_;
  Budget& host_budget_;
  std::shared_ptr<void> op_state_;
  OpObserver* op_observer_ = nullptr;
};

}  // namespace strata
