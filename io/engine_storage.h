// EngineStorage: the Storage over an Engine: bounded slots, continuation of short transfers,
// timeouts.
//
//   slot:  free ──submit──▶ in flight ──last completion──▶ free         (the group gets its result)
//                               └──older than the timeout──▶ abandoned ──late completion──▶ free
//
// A submitter takes a slot (blocking while none is free) and submits; one reaper thread waits for
// completions, submits what is left of short transfers, and completes groups. While nothing is in
// flight it sleeps on a condition variable, otherwise in the kernel.
//
// A request older than the timeout (and a sixteenth of it, so that a process that was stopped first
// sees the completions it slept through) fails its group and, for good, the storage: requests after
// it fail at once, and those waiting for a slot stop waiting. The memory of an abandoned request
// still belongs to the kernel, which may read or write it until the process has ended: its owner
// must not use the buffer again and must end the run.
//
// Destruction waits for what is in flight, which the timeout bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/engine.h"
#include "io/storage.h"
#include "io/transfer.h"

namespace strata::io {

struct EngineStorageOptions {
  std::string description;
  std::string path;                     // for errors
  std::int64_t capacity_bytes = 0;      // a multiple of alignment_bytes
  std::int64_t alignment_bytes = 4096;  // a power of two
  std::int64_t request_bytes_max = 1 << 20;
  int queue_depth = 64;
  std::chrono::milliseconds timeout{30000};
};

class EngineStorage : public Storage {
 public:
  // `tracer` may be null.
  EngineStorage(EngineStorageOptions options, std::unique_ptr<Engine> engine, Tracer* tracer);
  ~EngineStorage() override;
  EngineStorage(const EngineStorage&) = delete;
  EngineStorage& operator=(const EngineStorage&) = delete;

  void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) override;
  void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) override;
  void flush(IoGroup& group) override;
  void register_memory(AlignedSpan memory) override { engine_->register_memory(memory); }

  std::int64_t capacity_bytes() const override { return options_.capacity_bytes; }
  std::int64_t alignment_bytes() const override { return options_.alignment_bytes; }
  std::string description() const override { return options_.description; }
  std::string device_path(int /*device*/) const override { return options_.path; }
  StorageTraffic device_traffic(int device) const override;

 private:
  enum class SlotState : std::uint8_t { free, in_flight, abandoned };

  // Filled under the lock; from Engine::submit() on the reaper's, except that `state` changes under
  // the lock only.
  struct Slot {
    Transfer transfer;
    IoGroup* group = nullptr;
    std::int64_t started_ns = 0;
    SlotState state = SlotState::free;
  };

  // Submitters.
  void split(Operation operation, std::int64_t offset_bytes, AlignedSpan span, IoGroup& group);
  void start(const Transfer& transfer, IoGroup& group);
  Slot* take_slot(const Transfer& transfer, IoGroup& group);  // null: the storage has failed
  void hand_to_engine(Slot& slot);

  // The reaper.
  void reap();
  bool wait_for_work();
  std::chrono::nanoseconds abandon_overdue();  // returns how long to wait before the next call
  std::exception_ptr overdue_failure(const Slot& slot, std::int64_t now_ns) const;
  void on_completion(const Engine::Completion& completion);
  void finish(Slot& slot, std::exception_ptr failure);
  void count(const Slot& slot);
  void abandon_all(std::exception_ptr failure);

  // Under the lock.
  void release(Slot& slot);
  void abandon(Slot& slot, std::exception_ptr failure);
  std::uint64_t tag_of(const Slot& slot) const;

  const EngineStorageOptions options_;
  const std::int64_t timeout_ns_;
  const std::int64_t piece_bytes_max_;
  std::unique_ptr<Engine> engine_;
  Tracer* tracer_;
  int read_track_ = 0;
  int write_track_ = 0;
  std::atomic<std::int64_t> read_bytes_{0};
  std::atomic<std::int64_t> written_bytes_{0};

  std::mutex mutex_;
  std::condition_variable work_;   // the reaper: something is in flight, or it is to stop
  std::condition_variable freed_;  // submitters and the destructor: a slot came free, or a failure
  std::vector<Slot> slots_;
  std::vector<Slot*> free_slots_;
  int in_flight_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;         // of the storage; every later request gets it
  std::int64_t overdue_since_ns_ = 0;  // the reaper's: when it first saw one overdue (0: none is)
  std::thread reaper_;
};

}  // namespace strata::io
