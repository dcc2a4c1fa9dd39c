// Committer: makes the state of a run durable, on a thread of its own, while the step goes on.
//
//   idle ──want()──▶ wanted ──updates_applied()──▶ under way ──durable here──▶ written
//    ▲                                                                            │
//    └───── updates_may_start(): every rank has it: committed_step() ◀────────────┘
//
// Under way: states that live in host or device memory are copied to the slots that the rest of
// their shard uses, all writes are waited for, and the store's CommitLog does the rest.
// before_updates() waits for that. A one-slot store gets a started mark there, before its first
// update, and a clean mark instead of a commit.
//
// A failure ends the run, at the last commit. Thread contract: one thread, on every rank at the
// same places.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
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
  // `staging`: kCopyBytes of pinned memory at least, for states on the device. All must outlive it.
  Committer(CommitterParts parts, AlignedSpan staging);
  ~Committer() override;

  // The state after `step`, as soon as its updates have been applied. Not while one is wanted or
  // under way.
  void want(std::int64_t step, const store::Snapshot& snapshot);
  bool busy() const;

  void updates_applied() override;
  void before_updates() override;
  void updates_may_start() override;

  // The newest commit that every rank has, and its commit table on this rank: it stays valid, and
  // its slots untouched, until the next updates_may_start() after want().
  std::optional<std::int64_t> committed_step() const { return committed_step_; }

 private:
  std::optional<std::int64_t> committed_step_;
};

}  // namespace strata::engine
