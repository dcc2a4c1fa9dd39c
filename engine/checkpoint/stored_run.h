// StoredRun: the store of a run that is to go on: found, locked, and agreed upon by all ranks of
// today, however many ranks made it.
//
//   opened, a commit chosen ──┬─ take_volume(): this rank goes on in its own store (in place)
//                             └─ free_dead_slots(), filler() fills a new store, remove()
//
// Everything here but commit() is collective; one thread. A shard of the old store that a rank
// needs and does not reach is read by one that does and sent to all; one that no rank reaches is
// refused by name.
//
// Superblocks of other commits stay where they are until the filler is done, which may have to
// offer one of them. Whoever goes on in place then erases them, before its first write: that is
// CommitLog::continue_after(commit()).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "engine/step/state_filler.h"
#include "io/engine_choice.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "offload/comm/communicator.h"
#include "offload/store/stored_shard.h"

namespace strata::engine {

class OpenedStore;

struct StoredRunOptions {
  std::vector<std::string> directories;  // looked in before those of the pointer: --nvme
  io::EngineOptions engine;
  std::optional<std::int64_t> step;       // the commit of this step; nothing: the newest
  std::string run_folder{};               // looked in after `directories`
  const FailureLatch* failure = nullptr;  // ends what reads blocks
};

struct DeadSpace {
  std::string directory;
  std::int64_t bytes = 0;
};

class StoredRun {
 public:
  // Throws ConfigError when a file is missing, locked, of another store, or no rank reaches a
  // shard; when a shard is that of another run, of whose folder this one's is a copy; when a
  // one-slot store was killed between its marks; when there is no commit of the wanted step. Damage
  // of the newest commit's superblock or table is refused (commit_choice.h).
  StoredRun(const StorePointer& pointer, StoredRunOptions options, comm::Communicator& comm);
  ~StoredRun();

  // The newest commit (or clean mark) that is valid on all ranks of the old store, as this rank's
  // shard has it: kind, step and snapshot are the same for all. Nothing: training never wrote an
  // update, or never committed.
  const std::optional<store::Superblock>& commit() const { return commit_; }

  // Whether every rank can go on in the store it made: as many ranks, each with its own files in
  // these directories, and the extents that `manifest` wants.
  bool fits(const store::Manifest& manifest, const std::vector<std::string>& directories);

  // In place: this rank's store. After fits().
  std::unique_ptr<io::Volume> take_volume();

  // Before a new store is made beside this one: the space of everything but the commit, which is
  // verified first.
  void free_dead_slots();

  // What it frees of each directory of this host.
  std::vector<DeadSpace> dead_space();

  // Of the commit, every block verified; in place (the volume taken, and still there) or into
  // another store. Uses this object and `workers`.
  std::unique_ptr<StateFiller> filler(WorkerSet& workers);

  // Deletes the old files, each by one rank that reaches it.
  void remove();

 private:
  std::unique_ptr<OpenedStore> opened_;
  comm::Communicator& comm_;
  std::optional<store::Superblock> commit_;
  bool in_place_ = false;
};

}  // namespace strata::engine
