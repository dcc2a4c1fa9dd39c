#include "offload/store/commit_check.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace strata::store {

using offload::kLastingKinds;
using offload::StateKind;

namespace {

std::int64_t largest_block_bytes(const Manifest& manifest) {
  std::int64_t largest = 0;
  for (const StateKind kind : kLastingKinds) {
    largest = std::max(largest, offload::state_bytes(kind, manifest.dtypes, manifest.block_elements,
                                                     manifest.block_elements));
  }
  return largest;
}

}  // namespace

std::int64_t CommitCheck::staging_bytes(const Manifest& manifest, int blocks) {
  return blocks * largest_block_bytes(manifest);
}

CommitCheck::CommitCheck(const BlockReader& reader, const Manifest& manifest, AlignedSpan staging,
                         WorkerSet& workers)
    : reader_(reader), manifest_(manifest), workers_(workers) {
  const std::int64_t slot = largest_block_bytes(manifest);
  const std::int64_t each = staging.bytes() / slot / 2;  // blocks of a batch
  STRATA_CHECK(each > 0, "{} bytes of staging for two blocks of {}", staging.bytes(), slot);
  for (std::int64_t i = 0; i < 2 * each; ++i) {
    batches_[static_cast<std::size_t>(i % 2)].flights.emplace_back().memory =
        staging.sub(i * slot, slot);
  }
}

bool CommitCheck::advance(const std::vector<bool>& wanted) {
  const int units = static_cast<int>(manifest_.units.size());
  ++block_;
  while (unit_ < units) {
    const bool skipped = !wanted.empty() && !wanted[static_cast<std::size_t>(unit_)];
    if (!skipped && block_ < reader_.blocks(unit_, kLastingKinds[kind_])) return true;
    block_ = 0;
    if (skipped || ++kind_ == kLastingKinds.size()) {
      kind_ = 0;
      ++unit_;
    }
  }
  return false;
}

void CommitCheck::start(Batch& batch, const CommitTable& table, const std::vector<bool>& wanted) {
  for (batch.used = 0; batch.used < batch.flights.size() && advance(wanted); ++batch.used) {
    Flight& flight = batch.flights[batch.used];
    flight.unit = unit_;
    flight.kind = kLastingKinds[kind_];
    flight.block = block_;
    flight.bytes = reader_.start(table, unit_, flight.kind, block_, flight.memory, flight.group);
  }
}

void CommitCheck::wait_for(Batch& batch) {
  for (std::size_t i = 0; i < batch.used; ++i) {
    Flight& flight = batch.flights[i];
    flight.failure.reset();
    try {
      flight.group.wait();
    } catch (const IoError& error) {
      flight.failure = error.what();
    }
  }
}

CommitCheck::Next CommitCheck::settle(Batch& batch, const CommitTable& table,
                                      const OnDamage& on_damage) {
  wait_for(batch);
  workers_.parallel_for(static_cast<std::int64_t>(batch.used), [&](std::int64_t tile, int) {
    Flight& flight = batch.flights[static_cast<std::size_t>(tile)];
    flight.intact =
        !flight.failure && reader_.is_intact(table, flight.unit, flight.kind, flight.block,
                                             flight.memory.sub(0, flight.bytes));
  });
  for (std::size_t i = 0; i < batch.used; ++i) {
    const Flight& flight = batch.flights[i];
    if (flight.intact) continue;
    if (on_damage({flight.unit, flight.kind, flight.block, flight.failure.value_or("")}) ==
        Next::stop) {
      return Next::stop;
    }
  }
  return Next::go_on;
}

std::int64_t CommitCheck::run(const CommitTable& table, const std::vector<bool>& wanted,
                              const OnDamage& on_damage) {
  unit_ = 0;
  kind_ = 0;
  block_ = -1;
  std::int64_t bytes = 0;
  start(batches_[0], table, wanted);
  for (std::size_t now = 0; batches_[now].used > 0; now = 1 - now) {
    start(batches_[1 - now], table, wanted);
    for (std::size_t i = 0; i < batches_[now].used; ++i) bytes += batches_[now].flights[i].bytes;
    if (settle(batches_[now], table, on_damage) == Next::stop) {
      wait_for(batches_[1 - now]);
      break;
    }
  }
  return bytes;
}

}  // namespace strata::store
