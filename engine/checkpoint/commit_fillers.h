// What fills a trainer's state from the commit of a store: in place, where the store is the run's
// own, or block by block into a new one with other shards.
//
// Every block is verified before anything is made of it, and fill() ends on all ranks alike: with
// all of the commit intact, or by OpenedStore::refuse().
//
// Thread contract: fill() is collective, on one thread; checksums are computed on the workers.
#pragma once

#include <exception>
#include <map>
#include <optional>
#include <vector>

#include "engine/checkpoint/opened_store.h"
#include "engine/checkpoint/reshard.h"
#include "engine/checkpoint/verified_blocks.h"
#include "engine/step/state_filler.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/worker_set.h"

namespace strata::engine {

class CommitFiller : public StateFiller {
 public:
  CommitFiller(OpenedStore& source, WorkerSet& workers) : source_(source), workers_(workers) {}

 protected:
  OpenedStore& source_;
  WorkerSet& workers_;
};

// Adopts the commit; states that are resident are read into memory. Writes nothing.
class InPlaceFiller final : public CommitFiller {
 public:
  using CommitFiller::CommitFiller;

  void fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) override;
};

// Composes this rank's shards from the blocks that overlap them. What this rank reaches it reads
// itself; a block that some rank needs and does not reach is sent to all by the shard's keeper, in
// an order that is the same on all ranks.
class ReshardFiller final : public CommitFiller {
 public:
  using CommitFiller::CommitFiller;

  // `staging`: where it is too small for blocks of the old store, as with small models, it takes
  // memory of its own.
  void fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) override;
};

}  // namespace strata::engine
