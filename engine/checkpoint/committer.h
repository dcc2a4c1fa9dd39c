// Committer: makes the state of a run durable, on a thread of its own, while the step goes on.
//
//   idle ──want()──▶ wanted ──updates_applied()──▶ under way ──before_updates()──▶ written here
//    ▲                                                                                  │
//    └──────── updates_may_start(): every rank has it: committed_step() ◀───────────────┘
//
// Under way: states that live in host or device memory are copied to the slots that the rest of
// their shard uses, all writes are waited for, and the store's CommitLog does the rest.
//
// A one-slot store gets no commits: a started mark before its first update, and what is wanted, at
// a stop, is a clean mark. updates_may_start() after that is the run's end.
//
// A failure ends the run, at the last commit. Thread contract: one thread, on every rank at the
// same places. Allocates nothing after construction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/step/update_gate.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"
#include "kernels/base/trace.h"
#include "kernels/device/device.h"
#include "offload/state_store.h"
#include "offload/store/commit_log.h"
#include "offload/store/manifest.h"

namespace strata::engine {

struct CommitterParts {
  offload::StateStore& store;
  store::CommitLog& log;
  const store::Manifest& manifest;
  Device& device;
  FailureLatch& failure;
  Tracer* tracer;  // may be null
  // What has to be durable before the commit is: the run's log. On the committer's thread; may be
  // empty.
  std::function<void()> before_superblock;
};

class Committer final : public UpdateGate {
 public:
  // `staging`: pinned memory for states on the device, two of the largest blocks at least. All must
  // outlive the committer. `origin`: of the commit that the state is, in this store.
  struct Origin {
    std::int64_t step;
    store::Snapshot snapshot;
  };
  Committer(CommitterParts parts, AlignedSpan staging, std::optional<Origin> origin);
  ~Committer() override;

  // The state after `step`, as soon as its updates have been applied. While idle.
  void want(std::int64_t step, const store::Snapshot& snapshot);

  void updates_applied() override;
  bool holds_updates() const override;
  void before_updates() override;
  void updates_may_start() override;

  bool idle() const { return state_ == State::idle; }
  // The newest commit that every rank has.
  std::optional<std::int64_t> committed_step() const { return committed_step_; }
  // Of that commit, on this rank. Its slots stay as they are until the commit after it is on every
  // rank.
  const store::CommitTable& committed_table() const { return table_; }
  const store::Snapshot& committed_snapshot() const { return snapshot_; }

 private:
  enum class State : std::uint8_t { idle, wanted, under_way, written };

  bool one_slot() const;
  void make_durable();
  void copy_resident_states();
  void copy_from_device(int unit, offload::StateKind kind);

  CommitterParts parts_;
  std::unique_ptr<Stream> copies_stream_;
  io::IoGroup copies_;  // from host memory
  struct Half {         // of the staging
    AlignedSpan memory;
    io::IoGroup writes;
  };
  std::array<Half, 2> halves_;
  int track_ = 0;
  State state_ = State::idle;
  bool started_ = false;  // the mark of a one-slot store is there
  std::int64_t step_ = 0;
  store::Snapshot snapshot_;
  std::vector<std::uint8_t> changed_;  // per unit: written since the last commit
  store::CommitTable table_;
  std::optional<std::int64_t> committed_step_;
  TaskThread thread_;  // last: it uses everything above
};

}  // namespace strata::engine
