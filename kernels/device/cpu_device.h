// The `cpu` device: a backend in its own right, and the reference for the order of work.
//
// Each stream is a real thread (TaskThread); device memory is one mapping of the budget's size that
// nothing else uses; compute runs in tiles on the WorkerSet. Ops reach the machine through
// CpuStream::launch(), which runs a closure on the stream's thread. Copies and fills run on the
// stream's own thread alone: they stand for copy engines, and leave the cores to the WorkerSet.
//
// Failure: what a stream's work throws goes to the FailureLatch, and every stream then drains:
// compute, copies, host tasks and waits are dropped, records still complete, and synchronize()
// rethrows the failure. So nobody waits forever, and after synchronize() nothing touches memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "kernels/device/free_pieces.h"

namespace strata {

class CpuDevice;

// Counts its records: each wait is for one of them. Records of one event by several threads at once
// have no order and are a programmer error. Outlives the work that was enqueued on it.
class CpuEvent final : public Event {
 public:
  explicit CpuEvent(FailureLatch& failure) : failure_(failure) {}
  void synchronize() override;
  bool done() const override;

 private:
  friend class CpuStream;
  std::uint64_t next_generation();            // at record(), on the enqueueing thread
  std::uint64_t enqueued_generation() const;  // at wait()
  bool reached(std::uint64_t generation) const;
  void complete(std::uint64_t generation);  // on the recording stream
  void wait_for(std::uint64_t generation);  // on the waiting stream

  FailureLatch& failure_;
  mutable std::mutex mutex_;
  std::condition_variable completed_changed_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t completed_ = 0;
};

class CpuStream final : public Stream {
 public:
  CpuStream(CpuDevice& device, std::string name);
  ~CpuStream() override;

  Device& device() override;
  const std::string& name() const override { return thread_.name(); }
  void copy(void* destination, const void* source, std::int64_t bytes) override;
  void fill_zero(void* destination, std::int64_t bytes) override;
  void record(Event& event) override;
  void wait(Event& event, WaitFor reason) override;
  void host_task(HostTask task) override;
  void synchronize() override;

  // Runs body(device) on the stream's thread, in order; `name` is a literal, for the trace.
  template <typename Body>
  void launch(const char* name, Body body) {
    thread_.post([this, name, body = std::move(body)]() mutable { run(name, body); });
  }

 private:
  template <typename Body>
  void run(const char* name, Body& body);

  CpuDevice& device_;
  int track_;
  TaskThread thread_;
};

struct CpuDeviceOptions {
  std::int64_t device_memory_bytes = 0;
  // Test seam: waits of this kind are left out (-1: none).
  int skip_wait_kind = -1;
};

class CpuDevice final : public Device {
 public:
  // All references must outlive the device. `tracer` may be null.
  CpuDevice(const CpuDeviceOptions& options, Budget& host_budget, WorkerSet& workers,
            FailureLatch& failure, Tracer* tracer);
  ~CpuDevice() override;

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override;
  PinnedBuffer allocate_pinned(std::string tag, std::int64_t bytes) override;
  std::unique_ptr<Stream> make_stream(std::string name) override;
  std::unique_ptr<Event> make_event() override;

  WorkerSet& workers() { return workers_; }
  FailureLatch& failure() { return failure_; }
  Tracer* tracer() { return tracer_; }
  int skip_wait_kind() const { return options_.skip_wait_kind; }

 private:
  std::byte* arena_allocate(std::int64_t bytes) override;
  void arena_free(std::byte* data, std::int64_t bytes) noexcept override;

  CpuDeviceOptions options_;
  WorkerSet& workers_;
  FailureLatch& failure_;
  Tracer* tracer_;
  std::byte* arena_ = nullptr;
  FreePieces free_;
};

template <typename Body>
void CpuStream::run(const char* name, Body& body) {
  const TraceSpan span(device_.tracer(), track_, name);
  OpObserver* const observer = device_.op_observer();
  const std::int64_t begin_ns = observer != nullptr ? Tracer::now_ns() : 0;
  body(device_);
  if (observer != nullptr) {
    observer->op_ran(name, 1e-9 * static_cast<double>(Tracer::now_ns() - begin_ns));
  }
}

// The stream as a CPU stream; a stream of another device is a programmer error.
CpuStream& as_cpu(Stream& stream);

}  // namespace strata
