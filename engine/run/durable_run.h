// DurableRun: what lets a run with a folder go on after any end: the store it has, what it goes on
// from, and its commits.
//
//   found ──open_store()──▶ in place ───────────────────────────▶ begun ──▶ committer() ──▶ ended
//                     └───▶ a new store ──begin(): committed, pointed to, the old one deleted──▶ ┘
//
// Until the pointer of the folder (store.json) names the new store, the old one is the run. One
// thread. Collective, in this order: the constructor, open_store(), filler(), begin()
// and commit_now().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/checkpoint/committer.h"
#include "engine/checkpoint/stored_run.h"
#include "engine/plan/run_setup.h"
#include "engine/portable/filler.h"
#include "engine/run/run_store.h"
#include "engine/run/session.h"
#include "engine/step/state_filler.h"
#include "engine/step/trainer.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class DurableRun {
 public:
  // Rank 0's folder counts. `failure`, where a failed commit shows, also ends the verification and
  // the moving of a store. All must outlive the run.
  DurableRun(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure);
  ~DurableRun();

  // Whether the run has a store: it stays then, whatever happens.
  bool has_store() const { return pointer_.has_value(); }

  // For Session: the store that the run has, or a new one.
  RunStore open_store(const io::EngineChoice& engine, Tracer* tracer);

  // Of the trainer's state; null: initial values.
  StateFiller* filler(WorkerSet& workers);

  // The step that the run goes on from: 0 at its beginning.
  std::int64_t step() const { return snapshot_.schedule_step; }
  // Whether that is a commit of its own, until begin().
  bool goes_on() const { return stored_ != nullptr; }
  std::string origin_text() const;  // "step 50 of the store in /a, in place"; empty at a beginning

  // Once the trainer has its state. `before_superblock`: see CommitterParts.
  void begin(Trainer& trainer, Session& session, std::function<void()> before_superblock);

  Committer& committer() { return *committer_; }

  // Before the trainer, whose state is committed, ends, however that is: waits for a commit that is
  // under way. No committer() afterwards.
  void end() noexcept;

  // A step has ended: from now on the run stays whatever happens.
  void keep() { kept_ = true; }
  // After a failure before that: deletes this rank's store, if it is new, and what points to it.
  void give_up(Session& session) noexcept;

  // The state as it is now, after `step`: applies what is pending, commits and waits for every
  // rank.
  void commit_now(Trainer& trainer, std::int64_t step, const store::Snapshot& snapshot);

 private:
  void abandon_store_without_commit();
  void point_to(const RunStore& store);

  const RunSetup& setup_;
  comm::Communicator& comm_;
  FailureLatch& failure_;
  std::optional<StorePointer> pointer_;
  std::unique_ptr<StoredRun> stored_;
  std::unique_ptr<StateFiller> filler_;
  std::unique_ptr<PortableFiller> portable_;  // of --resume-from
  store::Snapshot snapshot_;
  bool in_place_ = false;
  bool begun_ = false;
  bool kept_ = false;
  std::unique_ptr<store::CommitLog> log_;
  std::unique_ptr<Committer> committer_;
};

}  // namespace strata::engine
