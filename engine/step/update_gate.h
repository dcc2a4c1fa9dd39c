// UpdateGate: what the trainer tells a durable run (engine/checkpoint/committer.h), so that no
// update overwrites what a commit rests on before the commit is durable on every rank.
//
//   updates_applied() ─▶ (a wanted commit is made, behind compute) ─▶ before_updates() ─▶
//   collective
//        ▲                                                                                  │
//        └──────────── updates are written ◀── updates_may_start() ◀────────────────────────┘
//
// Called by the trainer's thread, on every rank at the same places.
#pragma once

#include <atomic>
#include <cstdint>

namespace strata::engine {

class UpdateGate {
 public:
  virtual ~UpdateGate() = default;

  // Every update so far has been applied and its writes submitted. None follows before
  // updates_may_start().
  virtual void updates_applied() = 0;
  // Whether updates have to wait for something, the same on all ranks.
  virtual bool holds_updates() const = 0;
  // Blocks until what earlier commits need is durable on this rank. Throws the commit's failure.
  virtual void before_updates() = 0;
  // Every rank has come through before_updates().
  virtual void updates_may_start() = 0;
};

// What somebody asks of a rank between two steps; of all ranks, the union counts.
enum StepRequest : std::uint32_t {
  kStopRequest = 1,        // end after this step, resumable
  kCommitRequest = 2,      // commit after this step
  kCopyUnderWay = 4,       // a portable checkpoint still reads the last commit's slots
  kCheckpointTimeDue = 8,  // by rank 0's clock
};
using StepRequests = std::atomic<std::uint32_t>;

}  // namespace strata::engine
