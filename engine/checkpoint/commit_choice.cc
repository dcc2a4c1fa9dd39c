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

std::string problem_of(std::size_t rank, const ShardCommits& shard) {
  return fmt::format("rank {}: {}", rank, shard.problem.data());
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
std::string find_damage(const Shards& shards, int slots, std::int64_t newest_seen,
                        std::int64_t chosen) {
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const ShardCommits& shard = shards[rank];
    const bool lost_acknowledged = chosen < newest_seen - 1 && !is_valid(shard, newest_seen - 1);
    const bool all_have_newest =
        chosen < newest_seen && std::ranges::all_of(shards, [&](const ShardCommits& other) {
          return find(other, newest_seen) != nullptr;
        });
    const bool lost_table = all_have_newest && !is_valid(shard, newest_seen);
    const bool lost_mark = slots == 1 && chosen == 0 && shard.problems > 0;
    if (lost_acknowledged || lost_table || lost_mark || shard.problems > 1) {
      return shard.problems > 0 ? problem_of(rank, shard)
                                : fmt::format("rank {}: the superblock of sequence {} is gone",
                                              rank, newest_seen - 1);
    }
  }
  return {};
}

// Superblocks with wrong checksums that the choice passes over.
std::string find_notice(const Shards& shards, std::int64_t chosen_step) {
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const auto without_table = std::ranges::count_if(
        intact(shards[rank]), [](const Seen& seen) { return !seen.has_table; });
    if (shards[rank].problems == without_table) continue;
    return fmt::format(
        "{}: torn by a crash before it was complete, or damaged; going on from step {}",
        problem_of(rank, shards[rank]), chosen_step);
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
    if (superblock_of(shards.front(), sequence).kind == SuperblockKind::started) continue;
    steps.push_back(agreed_step(shards, sequence));
    (steps.back() == wanted ? choice.sequence : choice.other) = sequence;
  }
  if (choice.sequence) return choice;
  throw_error<ConfigError>(
      "--resume-step {}: the run has no commit of that step that is whole; {}", wanted,
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
  shard.problems = static_cast<int>(found.problems.size());
  if (shard.problems > 0) {
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
  choice.damage = find_damage(shards, slots, newest_seen, choice.sequence.value_or(0));
  const std::int64_t step = choice.sequence ? agreed_step(shards, *choice.sequence) : 0;
  if (!choice.damage.empty()) {
    choice.other = std::exchange(choice.sequence, std::nullopt);
    return choice;
  }
  if (choice.sequence &&
      superblock_of(shards.front(), *choice.sequence).kind == SuperblockKind::started) {
    throw_error<ConfigError>(
        "the run was stopped in the middle of step {}; without checkpoints (--checkpoint-every 0) "
        "there is nothing to go on from: start again in another --run folder, or from a portable "
        "checkpoint with --resume-from",
        step + 1);
  }
  if (slots == 2 && valid.size() > 1) choice.other = valid[1];
  choice.notice = find_notice(shards, step);
  return choice;
}

}  // namespace strata::engine
