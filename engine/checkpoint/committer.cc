#include "engine/checkpoint/committer.h"

#include <algorithm>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;
using offload::Tier;

Committer::Committer(CommitterParts parts, AlignedSpan staging, std::optional<Origin> origin)
    : parts_(std::move(parts)),
      copies_stream_(parts_.device.make_stream("commit copy")),
      changed_(parts_.manifest.units.size(), 0),
      thread_("commit", parts_.failure, 1) {
  copies_.report_to(parts_.store.lasting_writes());
  const std::int64_t half_bytes = staging.bytes() / 2 / kPageBytes * kPageBytes;
  for (std::size_t i = 0; i < halves_.size(); ++i) {
    halves_[i].memory = staging.sub(static_cast<std::int64_t>(i) * half_bytes, half_bytes);
    halves_[i].writes.report_to(parts_.store.lasting_writes());
  }
  table_.live_slots.resize(parts_.manifest.units.size());
  table_.checksums.resize(static_cast<std::size_t>(parts_.manifest.committed_blocks()));
  if (origin) {
    step_ = origin->step;
    snapshot_ = origin->snapshot;
    committed_step_ = step_;
    parts_.store.fill(table_);
  }
  if (parts_.tracer != nullptr) track_ = parts_.tracer->add_track("commit");
}

Committer::~Committer() = default;

bool Committer::one_slot() const {
  return parts_.store.plan().durability == offload::Durability::clean_mark;
}

void Committer::want(std::int64_t step, const store::Snapshot& snapshot) {
  STRATA_CHECK(state_ == State::idle);
  step_ = step;
  snapshot_ = snapshot;
  state_ = State::wanted;
}

void Committer::updates_applied() {
  if (state_ != State::wanted) return;
  for (std::size_t u = 0; u < changed_.size(); ++u) {
    changed_[u] = !parts_.store.is_protected(static_cast<int>(u));
  }
  parts_.store.protect_live_slots();
  state_ = State::under_way;
  thread_.post([this] { make_durable(); });
}

bool Committer::holds_updates() const { return state_ != State::idle || (one_slot() && !started_); }

void Committer::before_updates() {
  STRATA_CHECK(state_ != State::wanted, "an update before the state of step {} is safe", step_);
  if (state_ == State::under_way) {
    thread_.wait_idle();
    parts_.failure.check();
    state_ = State::written;
  } else if (one_slot() && !started_) {
    parts_.log.write(store::SuperblockKind::started, step_, snapshot_, nullptr);
    started_ = true;
  }
}

void Committer::updates_may_start() {
  if (state_ != State::written) return;
  committed_step_ = step_;
  started_ = false;
  state_ = State::idle;
}

void Committer::make_durable() {
  const TraceSpan span(parts_.tracer, track_, "commit");
  copy_resident_states();
  parts_.store.lasting_writes().wait();
  parts_.store.fill(table_);
  if (parts_.before_superblock) parts_.before_superblock();
  parts_.log.write(one_slot() ? store::SuperblockKind::clean_mark : store::SuperblockKind::commit,
                   step_, snapshot_, &table_);
}

void Committer::copy_resident_states() {
  parts_.store.wait_for_device_writes(*copies_stream_);
  for (int u = 0; u < static_cast<int>(changed_.size()); ++u) {
    if (changed_[static_cast<std::size_t>(u)] == 0) continue;
    for (const StateKind kind : offload::kLastingKinds) {
      if (parts_.store.plan().shard_bytes(parts_.store.unit(u), kind) == 0) continue;
      const Tier tier = parts_.store.tier(u, kind);
      if (tier == Tier::host) {
        parts_.store.write_copy(u, kind, 0, parts_.store.host(u, kind), copies_);
      } else if (tier == Tier::device) {
        copy_from_device(u, kind);
      }
    }
  }
  copies_.wait();
  for (Half& half : halves_) half.writes.wait();
}

// Piece by piece: one on its way from the device while the one before is written.
void Committer::copy_from_device(int unit, StateKind kind) {
  const offload::Plan& plan = parts_.store.plan();
  const std::int64_t bytes = plan.shard_bytes(parts_.store.unit(unit), kind);
  const std::int64_t block_bytes = std::min(bytes, plan.block_bytes(kind));
  const std::int64_t piece_bytes = halves_[0].memory.bytes() / block_bytes * block_bytes;
  STRATA_CHECK(piece_bytes > 0);
  std::size_t next = 0;
  for (std::int64_t offset = 0; offset < bytes; offset += piece_bytes) {
    Half& half = halves_[next++ % halves_.size()];
    half.writes.wait();
    const AlignedSpan piece = half.memory.sub(0, std::min(piece_bytes, bytes - offset));
    copies_stream_->copy(piece.data(), parts_.store.device(unit, kind) + offset, piece.bytes());
    parts_.store.ledger().add(offload::Account::commit, offload::Link::from_device, moved(kind),
                              piece.bytes());
    copies_stream_->synchronize();
    parts_.store.write_copy(unit, kind, offset, piece, half.writes);
  }
}

}  // namespace strata::engine
