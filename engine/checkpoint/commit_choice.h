// Which commit (or mark) of a store a run goes on from, from the superblocks of all its shards.
//
// Ranks write superblock n only when n - 1 is durable on all of them, and a drive writes one whole
// or not at all (docs/store-format.md), so
//  - it is the newest one that is intact, with its table, on every rank;
//  - one of sequence n anywhere shows that n - 1 was acknowledged: if what is chosen is older,
//    somebody's superblock was damaged later;
//  - one that all ranks have may have been acknowledged: if a table of it does not match, and it is
//    the newest, that is damage too (a table is durable before its superblock, and overwritten only
//    when there is a newer one);
//  - one that cannot be read is damaged, and nobody knows whether it was the newest.
// Damage is refused, never passed over: a commit that was acknowledged is not lost in silence.
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
  bool unreadable = false;          // a copy that is neither intact nor erased
  std::array<char, 500> problem{};  // what is wrong with the first that is not valid
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
  // Why nothing is chosen without being asked for; empty: nothing is damaged.
  std::string damage;
};

// `shards`: of all ranks of the store; `slots`: of each of its shards. `wanted`: the step to go on
// from; it decides whatever else is damaged. Throws ConfigError when it is not there, naming those
// that are, and for a one-slot store that was stopped in mid-step.
CommitChoice choose_commit(const std::vector<ShardCommits>& shards, int slots,
                           std::optional<std::int64_t> wanted);

}  // namespace strata::engine
