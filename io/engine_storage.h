// EngineStorage: the Storage over an Engine: bounded slots (slot_table.h), batches, continuation of
// short transfers, timeouts.
//
// A submitter takes as many slots as are free and its request has pieces for, and hands them to the
// engine in one call; while none is free it blocks until a quarter is, so that it is woken once and
// not per slot. One reaper thread takes what has been answered, submits what is left of short
// transfers, and completes groups. While nothing is in flight it sleeps on a condition variable,
// otherwise in the engine.
//
//   storage:  working ──timeout, refused submission, stray answer, broken engine──▶ failed, for
//   good
//
// A request older than the timeout (and a sixteenth of it, so that a process that was stopped first
// sees the completions it slept through) fails its group and, for good, the storage: requests after
// it fail at once, and those waiting for a slot stop waiting. The memory of an abandoned request
// still belongs to the kernel, which may read or write it until the process has ended: its owner
// must not use the buffer again and must end the run.
//
// An answer to no submission in flight changes no slot but fails the storage too, unless that has
// failed already (it may be the late one of an abandoned request): such an engine cannot be
// trusted.
//
// Destruction waits for what is in flight, which the timeout bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "io/direct_file.h"
#include "io/engine.h"
#include "io/engine_choice.h"
#include "io/slot_table.h"
#include "io/storage.h"
#include "io/transfer.h"
#include "kernels/base/trace.h"

namespace strata::io {

struct EngineStorageOptions {
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
  void unregister_memory(AlignedSpan memory) override { engine_->unregister_memory(memory); }

  std::int64_t capacity_bytes() const override { return options_.capacity_bytes; }
  std::int64_t alignment_bytes() const override { return options_.alignment_bytes; }
  std::string description() const override;
  std::string device_path(int /*device*/) const override { return options_.path; }
  StorageTraffic device_traffic(int device) const override;

 private:
  // What a submitter has still to start.
  struct Work {
    Operation operation;
    std::int64_t offset_bytes;
    AlignedSpan span;
    IoGroup* group;
    std::int64_t pieces;
  };

  // Submitters.
  void start(Work work);
  SlotBatch take_slots(Work& work);  // empty: the storage has failed
  Transfer next_piece(Work& work) const;
  void hand_to_engine(const SlotBatch& slots);
  void abandon_refused(std::span<Slot* const> slots, int error_number);

  // The reaper.
  void reap();
  std::optional<std::chrono::nanoseconds> next_wait();  // nothing: the storage is to end
  void on_completions(std::span<const Engine::Completion> completions);
  void conclude(Slot& slot, Transfer::Next next);
  void count(const Slot& slot);
  void finish(const SlotBatch& slots);
  std::exception_ptr overdue_failure(const Slot& slot, std::int64_t now_ns) const;
  void fail_stray();
  void abandon_all(std::exception_ptr failure);

  // Under the lock.
  std::chrono::nanoseconds abandon_overdue();  // returns how long to wait before the next call
  void abandon(Slot& slot, std::exception_ptr failure);
  void set_failure(std::exception_ptr failure);

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
  std::condition_variable freed_;  // submitters: slots came free, or a failure
  std::condition_variable idle_;   // the destructor: nothing is in flight
  SlotTable slots_;
  bool stopping_ = false;
  std::exception_ptr failure_;         // of the storage; every later request gets it
  std::int64_t overdue_since_ns_ = 0;  // the reaper's: when it first saw one overdue (0: none is)
  std::thread reaper_;
};

// On a whole file, whose blocks are reserved and which stays open until the storage has ended.
// Throws what make_engine() throws; `tracer` may be null.
std::unique_ptr<EngineStorage> open_engine_storage(const DirectFile& file,
                                                   std::int64_t capacity_bytes,
                                                   const EngineOptions& options, Tracer* tracer);

}  // namespace strata::io
