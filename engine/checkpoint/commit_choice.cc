#include "engine/checkpoint/commit_choice.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "kernels/base/error.h"

namespace strata::engine {

using store::Superblock;
using store::SuperblockKind;
using Seen = ShardCommits::Seen;

namespace {

std::span<const Seen> intact(const ShardCommits& shard) {
  return std::span(shard.intact).first(static_cast<std::size_t>(shard.count));
}

const Seen* find(const ShardCommits& shard, std::int64_t sequence) {
  const auto all = intact(shard);
  const auto found =
      std::ranges::find(all, sequence, [](const Seen& seen) { return seen.superblock.sequence; });
  return found == all.end() ? nullptr : &*found;
}

bool is_valid(const ShardCommits& shard, std::int64_t sequence) {
  const Seen* const seen = find(shard, sequence);
  return seen != nullptr && seen->has_table;
}

using Shards = std::vector<ShardCommits>;

// The sequence numbers that any rank has seen, newest first.
std::set<std::int64_t, std::greater<>> all_sequences(const Shards& shards) {
  std::set<std::int64_t, std::greater<>> sequences;
  for (const ShardCommits& shard : shards) {
    for (const Seen& seen : intact(shard)) sequences.insert(seen.superblock.sequence);
  }
  return sequences;
}

// Why the newest valid one, `chosen` (0: none), may not be all that was acknowledged; or empty.
std::string find_damage(const Shards& shards, std::int64_t newest_seen, std::int64_t chosen) {
  const bool all_have_newest = std::ranges::all_of(shards, [&](const ShardCommits& shard) {
    return newest_seen > 0 && find(shard, newest_seen) != nullptr;
  });
  // The newest that is known to have been durable on all ranks.
  const std::int64_t acknowledged = all_have_newest ? newest_seen : newest_seen - 1;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const ShardCommits& shard = shards[rank];
    const bool is_lost = chosen < acknowledged && !is_valid(shard, acknowledged);
    if (!is_lost && !shard.unreadable) continue;
    const std::string problem = shard.problem.data();
    return fmt::format(
        "rank {}: {}", rank,
        problem.empty() ? fmt::format("superblock {} is gone", acknowledged) : problem);
  }
  return {};
}

// The step of a superblock that all ranks have. Throws FormatError when they contradict each other.
std::int64_t agreed_step(const Shards& shards, std::int64_t sequence) {
  const Superblock& first = superblock_of(shards.front(), sequence);
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const Superblock& superblock = superblock_of(shards[rank], sequence);
    if (superblock.step == first.step && superblock.kind == first.kind &&
        superblock.snapshot == first.snapshot) {
      continue;
    }
    throw_error<FormatError>(
        "superblock {} of rank {} is of step {}, that of rank 0 of step {}, or their snapshots "
        "differ: the shards are not of one store",
        sequence, rank, superblock.step, first.step);
  }
  return first.step;
}

CommitChoice choose_wanted(const Shards& shards, const std::vector<std::int64_t>& valid,
                           std::int64_t wanted) {
  std::vector<std::int64_t> steps;
  CommitChoice choice;
  for (const std::int64_t sequence : valid) {
    if (superblock_of(shards.front(), sequence).kind == SuperblockKind::started) break;
    steps.push_back(agreed_step(shards, sequence));
    (steps.back() == wanted ? choice.sequence : choice.other) = sequence;
  }
  if (choice.sequence) return choice;
  throw_error<ConfigError>(
      "--resume-step {}: the run has no whole checkpoint of that step; {}", wanted,
      steps.empty() ? "there is none at all"
                    : fmt::format("it has those of {}", fmt::join(steps, " and ")));
}

}  // namespace

ShardCommits summary_of(const store::FoundCommits& found) {
  ShardCommits shard;
  const auto add = [&](const Superblock& superblock, bool has_table) {
    shard.intact.at(static_cast<std::size_t>(shard.count++)) = {superblock, has_table};
  };
  for (const store::FoundCommit& commit : found.valid) add(commit.superblock, true);
  for (const Superblock& superblock : found.without_table) add(superblock, false);
  shard.unreadable = found.problems.size() > found.without_table.size();
  if (!found.problems.empty()) {
    const std::string& text = found.problems.front();
    std::copy_n(text.data(), std::min(text.size(), shard.problem.size() - 1), shard.problem.data());
  }
  return shard;
}

const Superblock& superblock_of(const ShardCommits& shard, std::int64_t sequence) {
  const Seen* const seen = find(shard, sequence);
  STRATA_CHECK(seen != nullptr, "no superblock {}", sequence);
  return seen->superblock;
}

CommitChoice choose_commit(const std::vector<ShardCommits>& shards, int slots,
                           std::optional<std::int64_t> wanted) {
  const auto sequences = all_sequences(shards);
  std::vector<std::int64_t> valid;  // on all ranks, newest first
  for (const std::int64_t sequence : sequences) {
    if (std::ranges::all_of(shards, [&](const auto& s) { return is_valid(s, sequence); })) {
      valid.push_back(sequence);
    }
  }
  if (wanted) return choose_wanted(shards, valid, *wanted);
  const std::int64_t newest_seen = sequences.empty() ? 0 : *sequences.begin();
  CommitChoice choice;
  if (!valid.empty()) choice.sequence = valid.front();
  choice.damage = find_damage(shards, newest_seen, choice.sequence.value_or(0));
  if (!choice.sequence) return choice;
  const std::int64_t step = agreed_step(shards, *choice.sequence);
  const bool is_started =
      superblock_of(shards.front(), *choice.sequence).kind == SuperblockKind::started;
  if (!choice.damage.empty()) {
    const auto intact_one = std::exchange(choice.sequence, std::nullopt);
    if (!is_started) choice.other = intact_one;
    return choice;
  }
  if (is_started) {
    throw_error<ConfigError>(
        "the run was stopped in the middle of a step, some time after step {}; without "
        "checkpoints (--checkpoint-every 0) there is nothing to go on from: start again in another "
        "--run folder, or from a portable checkpoint with --resume-from",
        step);
  }
  if (slots == 2 && valid.size() > 1) choice.other = valid[1];
  return choice;
}

}  // namespace strata::engine
