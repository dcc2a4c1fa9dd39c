#include "engine/tools/store_verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/checkpoint/commit_choice.h"
#include "kernels/base/error.h"
#include "offload/store/commit_check.h"
#include "offload/store/shard_files.h"
#include "offload/store/stored_shard.h"

namespace strata::engine {

using store::CommitCheck;
using store::CommitTable;
using store::DamagedBlock;
using store::FoundCommits;
using store::StoredShard;

namespace {

constexpr int kBlocksInFlight = 64;

struct OpenedShard {
  StoredShard shard;
  FoundCommits commits;
};

const store::FoundCommit& commit_of(const OpenedShard& opened, std::int64_t sequence) {
  return *std::ranges::find_if(opened.commits.valid, [&](const store::FoundCommit& commit) {
    return commit.superblock.sequence == sequence;
  });
}

// Units of `table` whose blocks are not those of `verified` too.
std::vector<bool> units_elsewhere(const CommitTable& table, const CommitTable& verified) {
  std::vector<bool> units;
  for (std::size_t u = 0; u < table.live_slots.size(); ++u) {
    units.push_back(table.live_slots[u] != verified.live_slots[u]);
  }
  return units;
}

class Verifier {
 public:
  using OnDamage = std::function<void(const std::string& line)>;
  Verifier(const io::EngineOptions& engine, WorkerSet& workers, const OnDamage& on_damage)
      : engine_(engine), workers_(workers), on_damage_(on_damage) {}

  void open(const StoredRank& rank);
  void verify();
  const StoreVerification& result() const { return result_; }

 private:
  void report(const std::string& line) {
    ++result_.damaged;
    on_damage_(line);
  }
  void miss(const StoredRank& rank);
  void add_note(const std::string& note) {
    result_.note += (result_.note.empty() || note.empty() ? "" : "; ") + note;
  }
  CommitChoice choose();
  void verify_commit(const OpenedShard& opened, const CommitTable& table);
  bool is_intact(std::int64_t sequence, std::optional<std::int64_t> verified);
  void check_blocks(const OpenedShard& opened, const CommitTable& table,
                    const std::vector<bool>& units, const CommitCheck::OnDamage& on_damage);

  const io::EngineOptions engine_;
  WorkerSet& workers_;
  const OnDamage& on_damage_;
  std::vector<OpenedShard> shards_;
  bool is_complete_ = true;  // all ranks' shards are open
  StoreVerification result_;
};

// Of a run all ranks are wanted; in directories, what lies there.
void Verifier::miss(const StoredRank& rank) {
  is_complete_ = false;
  if (!rank.last_in.empty()) return report(missing_text(rank));
  add_note(missing_text(rank));
}

// What a living run has locked is refused; what cannot be read is damage.
void Verifier::open(const StoredRank& rank) {
  if (rank.files.empty()) return miss(rank);
  try {
    store::read_shard_files(rank.files);
  } catch (const Error& error) {
    is_complete_ = false;
    return report(error.what());
  }
  StoredShard shard(rank.files, io::VolumeAccess::shared, engine_, nullptr);
  FoundCommits commits = shard.commits();
  shards_.push_back({std::move(shard), std::move(commits)});
}

CommitChoice Verifier::choose() {
  std::vector<ShardCommits> summaries;
  for (const OpenedShard& opened : shards_) summaries.push_back(summary_of(opened.commits));
  try {
    return choose_commit(summaries, shards_.front().shard.manifest().slots, std::nullopt);
  } catch (const ConfigError& error) {  // stopped in mid-step
    result_.no_state = error.what();
    return {};
  } catch (const Error& error) {  // what a resume would say
    CommitChoice nothing;
    nothing.damage = error.what();
    return nothing;
  }
}

void Verifier::check_blocks(const OpenedShard& opened, const CommitTable& table,
                            const std::vector<bool>& units,
                            const CommitCheck::OnDamage& on_damage) {
  const store::Manifest& manifest = opened.shard.manifest();
  const std::int64_t bytes = CommitCheck::staging_bytes(manifest, kBlocksInFlight);
  Budget budget("blocks in flight", bytes);
  const AlignedBuffer staging(budget, "blocks", bytes);
  const store::BlockReader reader = opened.shard.blocks();
  CommitCheck check(reader, manifest, staging.span(), workers_);
  result_.bytes += check.run(table, units, on_damage);
}

// Consecutive blocks with the same damage are one range.
void Verifier::verify_commit(const OpenedShard& opened, const CommitTable& table) {
  const store::BlockReader reader = opened.shard.blocks();
  std::optional<DamagedBlock> first;
  std::int64_t blocks = 0;
  const auto report_range = [&] {
    if (!first) return;
    report(fmt::format("rank {}: {}, {} at {}: {}", opened.shard.header().rank,
                       reader.describe(first->unit, first->kind, first->block, blocks),
                       blocks == 1 ? "a block" : fmt::format("{} blocks", blocks),
                       reader.locate(table, first->unit, first->kind, first->block),
                       first->problem.empty() ? "not what was written there" : first->problem));
  };
  check_blocks(opened, table, {}, [&](const DamagedBlock& damaged) {
    const bool continues = first && damaged.unit == first->unit && damaged.kind == first->kind &&
                           damaged.block == first->block + blocks && damaged.problem.empty() &&
                           first->problem.empty();
    if (continues) {
      ++blocks;
    } else {
      report_range();
      first = damaged;
      blocks = 1;
    }
    return CommitCheck::Next::go_on;
  });
  report_range();
}

// Whether all of a commit is intact, apart from what another has too that was verified.
bool Verifier::is_intact(std::int64_t sequence, std::optional<std::int64_t> verified) {
  bool intact = true;
  for (const OpenedShard& opened : shards_) {
    const CommitTable& table = commit_of(opened, sequence).table;
    const std::vector<bool> units =
        verified ? units_elsewhere(table, commit_of(opened, *verified).table) : std::vector<bool>();
    check_blocks(opened, table, units, [&](const DamagedBlock&) {
      intact = false;
      return CommitCheck::Next::stop;
    });
    if (!intact) break;
  }
  return intact;
}

void Verifier::verify() {
  if (shards_.empty()) return;
  const CommitChoice choice = choose();
  if (!choice.damage.empty()) report(choice.damage);
  const std::int64_t damaged_before = result_.damaged;
  if (choice.sequence) {
    result_.step = commit_of(shards_.front(), *choice.sequence).superblock.step;
    for (const OpenedShard& opened : shards_) {
      verify_commit(opened, commit_of(opened, *choice.sequence).table);
    }
  } else if (choice.damage.empty() && result_.no_state.empty()) {
    add_note("there is no checkpoint yet");
  }
  if (!choice.other || !is_complete_) return;
  // Blocks that both commits share were found sound, or damaged.
  const bool is_sound = result_.damaged == damaged_before;
  if (is_intact(*choice.other, is_sound ? choice.sequence : std::nullopt)) {
    result_.intact_step = commit_of(shards_.front(), *choice.other).superblock.step;
  }
}

}  // namespace

StoreVerification verify_store(const StoredTarget& target, const io::EngineOptions& engine,
                               WorkerSet& workers,
                               const std::function<void(const std::string& line)>& on_damage) {
  const bool is_elsewhere =
      std::ranges::all_of(target.ranks, [](const StoredRank& rank) { return rank.files.empty(); });
  if (target.ranks.empty()) {
    throw_error<ConfigError>("{} has no store: there is nothing to verify", target.name());
  }
  if (is_elsewhere)
    throw_error<ConfigError>("{}: {}", target.name(), missing_text(target.ranks[0]));
  Verifier verifier(engine, workers, on_damage);
  for (const StoredRank& rank : target.ranks) verifier.open(rank);
  verifier.verify();
  return verifier.result();
}

}  // namespace strata::engine
