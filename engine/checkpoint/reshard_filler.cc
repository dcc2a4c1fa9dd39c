#include <algorithm>
#include <span>

#include "engine/checkpoint/commit_fillers.h"
#include "engine/step/agreement.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using offload::StateKind;

namespace {

constexpr std::int64_t kOwnBlocks = 5;  // of the old store, where the staging is too small

// Throws ConfigError unless `plan` has the state that the store holds, whatever the number of ranks
// and the tiers.
void check_same_state(const store::Manifest& stored, const offload::Plan& plan) {
  if (stored.dtypes.weights != plan.dtypes.weights) {
    throw_error<ConfigError>(
        "the store's weights are {}, this run's {}: resume with --precision {}, or from a portable "
        "checkpoint with --resume-from",
        name_of(stored.dtypes.weights), name_of(plan.dtypes.weights),
        name_of(stored.dtypes.weights));
  }
  const bool trains = plan.trains();  // otherwise it reads weights alone
  if (trains && stored.dtypes.moments != plan.dtypes.moments) {
    throw_error<ConfigError>("the store's moments are {}, this run's {}: resume with --moments {}",
                             name_of(stored.dtypes.moments), name_of(plan.dtypes.moments),
                             name_of(stored.dtypes.moments));
  }
  if (trains && stored.dtypes.moment_count != plan.dtypes.moment_count) {
    throw_error<ConfigError>(
        "the store has {} moments for each element, this run {}: resume with the same --optimizer",
        stored.dtypes.moment_count, plan.dtypes.moment_count);
  }
  const bool same_units = std::ranges::equal(
      stored.units, plan.units, [](const store::StoredUnit& a, const offload::UnitPlan& b) {
        return a.name == b.name && a.elements == b.elements;
      });
  if (!same_units)
    throw ConfigError("the store is of another model than this run: give that --model");
}

// The work of one fill().
class Reshard {
 public:
  Reshard(OpenedStore& source, offload::StateStore& store, StateAccess& access, AlignedSpan memory,
          std::int64_t new_block_bytes, std::int64_t old_block_bytes, WorkerSet& workers)
      : source_(source),
        store_(store),
        access_(access),
        composed_(memory.sub(0, new_block_bytes)),
        served_(memory.sub(new_block_bytes, old_block_bytes)),
        verified_(memory.sub(new_block_bytes + old_block_bytes,
                             memory.bytes() - new_block_bytes - old_block_bytes),
                  old_block_bytes, workers, source.failure()) {}

  void open_needed();
  void compose(int unit);

 private:
  // Does `work`, unless something failed here before: then this rank only takes part in exchanges
  // until all ranks settle.
  template <typename Work>
  void attempt(const Work& work);

  Sharding old_sharding(int unit) const;
  Sharding new_sharding(int unit) const;
  UnitRange range_of_rank(int unit, int rank) const;
  bool is_served(int unit, const SourceBlock& block) const;
  StoredBlock stored(int unit, StateKind kind, const SourceBlock& block) const;
  void compose(int unit, StateKind kind);
  void add_reached(ShardComposer& composer, int unit, StateKind kind,
                   const std::vector<SourceBlock>& blocks);
  std::span<const std::byte> exchange(int unit, StateKind kind, const SourceBlock& block);

  const OpenedShard& shard(int number) const {
    const auto kept = source_.kept().find(number);
    return kept != source_.kept().end() ? kept->second : others_.at(number);
  }

  OpenedStore& source_;
  offload::StateStore& store_;
  StateAccess& access_;
  AlignedSpan composed_;  // a block of this rank's shard
  AlignedSpan served_;    // a block for all
  VerifiedBlocks verified_;
  std::map<int, OpenedShard> others_;  // that this rank needs, reaches and does not keep
  std::exception_ptr failure_;
};

template <typename Work>
void Reshard::attempt(const Work& work) {
  if (failure_) return;
  try {
    work();
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
}

Sharding Reshard::old_sharding(int unit) const {
  const store::StoredUnit& stored = source_.manifest().units[static_cast<std::size_t>(unit)];
  return {stored.elements, stored.shard_elements, source_.manifest().block_elements};
}

Sharding Reshard::new_sharding(int unit) const {
  const offload::UnitPlan& planned = store_.unit(unit);
  return {planned.elements, planned.shard_elements, store_.plan().block_elements};
}

UnitRange Reshard::range_of_rank(int unit, int rank) const {
  return shard_range(new_sharding(unit), rank);
}

void Reshard::open_needed() {
  const int rank = source_.comm().rank();
  for (int number = 0; number < source_.shards(); ++number) {
    bool needed = false;
    for (int unit = 0; unit < static_cast<int>(store_.plan().units.size()); ++unit) {
      const UnitRange held = shard_range(old_sharding(unit), number);
      needed |= !intersection(held, range_of_rank(unit, rank)).empty();
    }
    if (!needed || !source_.reaches(rank, number) || source_.keeper(number) == rank) continue;
    others_.emplace(number, source_.open_shared(number));
  }
}

// Whether some rank needs it and does not reach it.
bool Reshard::is_served(int unit, const SourceBlock& block) const {
  const UnitRange held = block_range(old_sharding(unit), block.shard, block.block);
  for (int rank = 0; rank < source_.comm().world_size(); ++rank) {
    if (source_.reaches(rank, block.shard)) continue;
    if (!intersection(held, range_of_rank(unit, rank)).empty()) return true;
  }
  return false;
}

StoredBlock Reshard::stored(int unit, StateKind kind, const SourceBlock& block) const {
  const OpenedShard& opened = shard(block.shard);
  const store::FoundCommit& commit = opened.commit(source_.choice().sequence.value());
  return {&opened.reader, &commit.table, unit, kind, block.block};
}

void Reshard::compose(int unit) {
  for (const StateKind kind : offload::kLastingKinds) {
    if (store_.plan().shard_bytes(store_.unit(unit), kind) > 0) compose(unit, kind);
  }
  source_.settle(failure_);
}

void Reshard::compose(int unit, StateKind kind) {
  const Sharding from = old_sharding(unit);
  const UnitRange mine = range_of_rank(unit, source_.comm().rank());
  const offload::Plan& plan = store_.plan();
  ShardComposer composer(kind, plan.dtypes, from, new_sharding(unit), source_.comm().rank(),
                         {composed_.data(), static_cast<std::size_t>(composed_.bytes())},
                         [&](std::int64_t block, std::span<const std::byte> bytes) {
                           access_.write(unit, kind, block * plan.block_bytes(kind), bytes);
                         });
  const auto& stored = source_.manifest().units[static_cast<std::size_t>(unit)];
  if (stored.extents[static_cast<std::size_t>(kind)]) {
    std::vector<SourceBlock> reached;
    for (const SourceBlock& block : blocks_with(from, {0, from.elements})) {
      const bool needed = !intersection(block_range(from, block.shard, block.block), mine).empty();
      if (!is_served(unit, block)) {
        if (needed) reached.push_back(block);
        continue;
      }
      add_reached(composer, unit, kind, reached);
      reached.clear();
      const std::span<const std::byte> bytes = exchange(unit, kind, block);
      if (needed) attempt([&] { composer.add(block, bytes); });
    }
    add_reached(composer, unit, kind, reached);
  }
  attempt([&] { composer.finish(); });
}

void Reshard::add_reached(ShardComposer& composer, int unit, StateKind kind,
                          const std::vector<SourceBlock>& blocks) {
  attempt([&] {
    std::vector<StoredBlock> reads;
    for (const SourceBlock& block : blocks) reads.push_back(stored(unit, kind, block));
    verified_.read(reads, [&](std::size_t index, std::span<const std::byte> bytes) {
      composer.add(blocks[index], bytes);
    });
  });
}

// A keeper that fails sends what it has: no rank goes on from it, for all settle after the unit.
std::span<const std::byte> Reshard::exchange(int unit, StateKind kind, const SourceBlock& block) {
  const std::int64_t elements = old_sharding(unit).elements_in(block.block);
  const auto bytes = static_cast<std::size_t>(
      offload::state_bytes(kind, source_.manifest().dtypes, elements, elements));
  const int keeper = source_.keeper(block.shard);
  if (keeper == source_.comm().rank()) {
    attempt([&] {
      verified_.read(std::vector{stored(unit, kind, block)},
                     [&](std::size_t, std::span<const std::byte> read) {
                       std::ranges::copy(read, served_.data());
                     });
    });
  }
  source_.comm().broadcast({served_.data(), bytes}, keeper);
  return {served_.data(), bytes};
}

}  // namespace

void ReshardFiller::fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) {
  const offload::Plan& plan = store.plan();
  const store::Manifest& manifest = source_.manifest();
  agree(source_.comm(), [&] { check_same_state(manifest, plan); });
  const std::int64_t new_block_bytes = plan.largest_block_bytes();
  const std::int64_t old_block_bytes = largest_block_bytes(manifest);
  const bool suffices = staging.bytes() >= new_block_bytes + 3 * old_block_bytes;
  const std::int64_t own_bytes =
      suffices ? 0 : round_up(new_block_bytes + kOwnBlocks * old_block_bytes, kPageBytes);
  Budget budget("re-sharding", own_bytes);
  const AlignedBuffer own(budget, "blocks", own_bytes);
  Reshard reshard(source_, store, access, suffices ? staging : own.span(), new_block_bytes,
                  old_block_bytes, workers_);
  source_.share();
  agree(source_.comm(), [&] { reshard.open_needed(); });
  for (int unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) reshard.compose(unit);
  agree(source_.comm(), [&] { access.flush(); });
}

}  // namespace strata::engine
