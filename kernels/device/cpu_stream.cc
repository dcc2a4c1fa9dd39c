#include <cstring>

#include "kernels/base/annotate.h"
#include "kernels/base/error.h"
#include "kernels/device/copy_check.h"
#include "kernels/device/cpu_device.h"

namespace strata {
namespace {

// Work that may be enqueued ahead of a stream; more blocks whoever enqueues.
constexpr std::int64_t kQueueCapacity = 1024;

CpuEvent& as_cpu(Event& event) {
  auto* const cpu_event = dynamic_cast<CpuEvent*>(&event);
  STRATA_CHECK(cpu_event != nullptr, "an event of another device");
  return *cpu_event;
}

}  // namespace

void CpuEvent::synchronize() {
  wait_for(enqueued_generation());
  failure_.check();
}

bool CpuEvent::done() const {
  const std::lock_guard lock(mutex_);
  return completed_ == enqueued_;
}

std::uint64_t CpuEvent::next_generation() {
  const std::lock_guard lock(mutex_);
  return ++enqueued_;
}

std::uint64_t CpuEvent::enqueued_generation() const {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

bool CpuEvent::reached(std::uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= generation;
}

// Generations complete in order: a record on a second stream, made while the first stream has yet
// to get to its own, must not release those who wait for the first.
void CpuEvent::complete(std::uint64_t generation) {
  std::unique_lock lock(mutex_);
  completed_changed_.wait(lock, [&] { return completed_ + 1 == generation; });
  completed_ = generation;
  completed_changed_.notify_all();  // under the lock: a waiter may destroy the event next
}

// Ends in a failed run too: streams that drain still complete what was recorded on them.
void CpuEvent::wait_for(std::uint64_t generation) {
  std::unique_lock lock(mutex_);
  completed_changed_.wait(lock, [&] { return completed_ >= generation; });
}

CpuStream::CpuStream(CpuDevice& device, std::string name)
    : device_(device),
      track_(device.tracer() != nullptr ? device.tracer()->add_track(name) : 0),
      thread_(std::move(name), device.failure(), kQueueCapacity) {}

CpuStream::~CpuStream() = default;

Device& CpuStream::device() { return device_; }

void CpuStream::copy(void* destination, const void* source, std::int64_t bytes) {
  if (bytes == 0) return;
  check_copy(destination, source, bytes);
  thread_.post([this, destination, source, bytes] {
    const TraceSpan span(device_.tracer(), track_, "copy", bytes);
    annotate_read(source, bytes);
    annotate_write(destination, bytes);
    std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  });
}

void CpuStream::fill_zero(void* destination, std::int64_t bytes) {
  if (bytes == 0) return;
  STRATA_CHECK(bytes > 0, "fill of {} bytes", bytes);
  thread_.post([this, destination, bytes] {
    const TraceSpan span(device_.tracer(), track_, "fill", bytes);
    annotate_write(destination, bytes);
    std::memset(destination, 0, static_cast<std::size_t>(bytes));
  });
}

void CpuStream::record(Event& event) {
  CpuEvent& cpu_event = as_cpu(event);
  const std::uint64_t generation = cpu_event.next_generation();
  thread_.post([&cpu_event, generation] { cpu_event.complete(generation); },
               TaskThread::Drain::run);
}

void CpuStream::wait(Event& event, WaitFor reason) {
  if (static_cast<int>(reason) == device_.skip_wait_kind()) return;
  CpuEvent& cpu_event = as_cpu(event);
  const std::uint64_t generation = cpu_event.enqueued_generation();
  if (generation == 0) return;
  thread_.post([this, &cpu_event, generation, reason] {
    if (!cpu_event.reached(generation)) {
      const TraceSpan span(device_.tracer(), track_, name_of(reason));
      cpu_event.wait_for(generation);
    }
  });
}

void CpuStream::host_task(HostTask task) {
  thread_.post([this, task = std::move(task)]() mutable {
    const TraceSpan span(device_.tracer(), track_, "host task");
    task();
  });
}

void CpuStream::synchronize() {
  STRATA_CHECK(!thread_.on_this_thread(), "stream {} waits for itself", name());
  thread_.wait_idle();
  device_.failure().check();
}

CpuStream& as_cpu(Stream& stream) {
  STRATA_CHECK(stream.device().kind() == DeviceKind::cpu, "stream {} is not the cpu's",
               stream.name());
  return static_cast<CpuStream&>(stream);
}

}  // namespace strata
