// Which commit (or mark) of a store a run goes on from, from the superblocks of all its shards.
//
// Ranks write superblock n only when n - 1 is durable on all of them, so
//  - it is the newest one that is intact, with its table, on every rank;
//  - one of sequence n anywhere shows that n - 1 was acknowledged: if what is chosen is older,
//    somebody's superblock was damaged later;
//  - one that all ranks have may have been acknowledged: if a table of it does not match, and it is
//    the newest, that is damage too (a table is durable before its superblock, and overwritten only
//    when there is a newer one);
//  - a crash spoils one copy of a rank's two at most.
// Damage is refused, never passed over. A superblock with a wrong checksum alone is either torn, by
// a crash that came before its acknowledgement, or damaged; which of the two cannot be known. The
// run then goes on from the one before and says so. It does no harm to the state: if updates had
// followed the one that is lost, they would have overwritten blocks of the one before, and every
// block is verified.
//
// In a one-slot store the newest has to be a clean mark: a started one was stopped in mid-step.
//
// Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/store/commit_log.h"

namespace strata::engine {

// What the superblocks of one shard say; of one size, for an exchange between ranks.
struct ShardCommits {
  struct Seen {
    store::Superblock superblock;
    bool has_table = false;  // or needs none
  };
  std::array<Seen, 2> intact{};  // the first `count`
  int count = 0;
  int problems = 0;                 // copies that are neither valid nor erased
  std::array<char, 500> problem{};  // the first of them
};
ShardCommits summary_of(const store::FoundCommits& found);
// One that is among them.
const store::Superblock& superblock_of(const ShardCommits& shard, std::int64_t sequence);

struct CommitChoice {
  // Of the superblock to go on from, the same on all ranks; nothing: no update was ever written, or
  // nothing was committed.
  std::optional<std::int64_t> sequence;
  // Of the other commit that all ranks have.
  std::optional<std::int64_t> other;
  // What is damaged, so that nothing may be chosen without being asked for; empty: nothing.
  std::string damage;
  std::string notice;  // for people; may be empty
};

// `shards`: of all ranks of the store; `slots`: of each of its shards. `wanted`: the step to go on
// from; it decides whatever else is damaged. Throws ConfigError when it is not there, naming those
// that are, and for a one-slot store that was stopped in mid-step.
CommitChoice choose_commit(const std::vector<ShardCommits>& shards, int slots,
                           std::optional<std::int64_t> wanted);

}  // namespace strata::engine
