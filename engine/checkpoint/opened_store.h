// OpenedStore: the store of a run as today's ranks reach it, however many ranks made it: who keeps
// which of its shards, and which commit the run goes on from.
//
// Every shard has one keeper: the rank of the same number where that reaches it, otherwise one that
// does. The keeper reads its superblocks, verifies it and serves it to ranks that do not reach it;
// for a run that goes on it holds it locked for its own until share().
//
// What is not const is collective, but for kept(), and so is making one: all ranks throw, or none
// does. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/commit_choice.h"
#include "engine/checkpoint/store_pointer.h"
#include "engine/checkpoint/verified_blocks.h"
#include "io/engine_choice.h"
#include "kernels/base/failure_latch.h"
#include "offload/comm/communicator.h"
#include "offload/store/stored_shard.h"

namespace strata::engine {

// A shard that this rank has open.
struct OpenedShard {
  OpenedShard(const std::vector<std::string>& files, io::VolumeAccess access,
              const io::EngineOptions& engine);

  // Of a commit that it has.
  const store::FoundCommit& commit(std::int64_t sequence) const;

  store::StoredShard stored;
  io::Volume* volume;  // also after it was taken
  store::BlockReader reader;
  store::FoundCommits commits;
};

// Every block of a unit's lasting state, in the order of the table.
std::vector<StoredBlock> blocks_of(const OpenedShard& shard, const store::CommitTable& table,
                                   int unit);

// Of the blocks of lasting state, as long as they are in any unit.
std::int64_t largest_block_bytes(const store::Manifest& manifest);

class OpenedStore {
 public:
  // `directories`: looked in before those of the pointer. `access`: exclusive for a run that goes
  // on. `failure` ends what reads blocks; it may be null. Throws ConfigError when a
  // file is missing, locked or of another store, no rank reaches a shard, or there is no commit of
  // the wanted `step`; for damage of the newest commit's superblock or table see commit_choice.h.
  OpenedStore(const StorePointer& pointer, const std::vector<std::string>& directories,
              const io::EngineOptions& engine, std::optional<std::int64_t> step,
              comm::Communicator& comm, io::VolumeAccess access = io::VolumeAccess::shared,
              const FailureLatch* failure = nullptr);

  comm::Communicator& comm() const { return comm_; }
  const FailureLatch* failure() const { return failure_; }
  int shards() const { return static_cast<int>(keepers_.size()); }
  bool reaches(int rank, int shard) const;
  int keeper(int shard) const { return keepers_[static_cast<std::size_t>(shard)]; }
  // Of one shard: what they have in common is dtypes, blocks, and the units and their sizes.
  const store::Manifest& manifest() const { return manifest_; }

  const CommitChoice& choice() const { return choice_; }
  std::optional<store::Superblock> commit() const;  // the choice's

  std::map<int, OpenedShard>& kept() { return kept_; }
  // Another one, to read.
  OpenedShard open_shared(int shard) const;

  // Lets other ranks read what this one keeps.
  void share();
  // Verifies the commit, then durably forgets every other one.
  void forget_other_commits();

  // `failure`: this rank's, of reading the commit, or null. Throws when any rank has one; for
  // damage see refuse().
  void settle(const std::exception_ptr& failure);
  // Ends the run for the damage that is told, offering another commit if every block of that is
  // intact. Throws AgreedFailure.
  [[noreturn]] void refuse(const std::string& damage, std::optional<std::int64_t> other);

 private:
  void find_files(const StorePointer& pointer, const std::vector<std::string>& directories);
  void choose_keepers(const StorePointer& pointer);
  void open_kept(const StorePointer& pointer, io::VolumeAccess access);
  void share_manifest();
  std::vector<ShardCommits> gather_commits();
  std::string find_damage(std::int64_t sequence);
  std::exception_ptr verify_kept(VerifiedBlocks& blocks, std::int64_t sequence, int unit) const;
  std::string first_damage(const std::exception_ptr& failure);
  void refuse_damage(const std::string& damage);
  std::int64_t step_of(std::int64_t sequence) const;

  comm::Communicator& comm_;
  const FailureLatch* failure_;
  io::EngineOptions engine_;
  std::vector<std::vector<std::string>> files_;  // of each shard; empty: out of this rank's reach
  std::vector<std::uint8_t> reach_;              // (rank, shard)
  std::vector<int> keepers_;
  std::map<int, OpenedShard> kept_;
  store::Manifest manifest_;
  std::vector<ShardCommits> commits_;  // of all shards
  CommitChoice choice_;
};

}  // namespace strata::engine
