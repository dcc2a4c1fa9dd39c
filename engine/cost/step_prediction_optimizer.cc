#include "engine/cost/step_prediction_optimizer.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "offload/plan_traffic.h"

namespace strata::engine {

using offload::StateKind;
using offload::Tier;

namespace {

// Of a unit. Where there are more, several count as one: they are so small a part of the unit that
// how they overlap with others does not depend on their size.
constexpr std::int64_t kChunksMax = 32;

}  // namespace

PredictedOptimizer::PredictedOptimizer(const RunSetup& setup, PredictedMachine& machine)
    : plan_(setup.plan),
      machine_(machine),
      streamed_(streamed_kinds(plan_)),
      chunks_of_(plan_.units.size(), 0),
      pending_(plan_.units.size(), 0) {
  const bool deferred = plan_.update == offload::UpdateTime::deferred;
  for (const int u : deferred ? first_use_order(setup.index) : gradient_order(setup.index)) {
    const offload::UnitPlan& unit = plan_.units[static_cast<std::size_t>(u)];
    if (unit.frozen || unit.updated_on_device) continue;
    const std::int64_t shard = unit.shard_elements;
    const std::int64_t elements =
        std::max(plan_.chunk_elements, round_up(ceil_div(shard, kChunksMax), plan_.block_elements));
    for (std::int64_t first = 0; first < shard; first += elements) {
      chunks_.push_back(chunk_of(unit, std::min(elements, shard - first)));
      ++chunks_of_[static_cast<std::size_t>(u)];
    }
  }
}

PredictedOptimizer::Chunk PredictedOptimizer::chunk_of(const offload::UnitPlan& unit,
                                                       std::int64_t elements) const {
  Chunk chunk;
  for (const StateKind kind : streamed_) {
    const Tier tier = unit.tier(kind);
    const auto bytes = static_cast<double>(plan_.bytes_of_elements(kind, elements));
    if (tier == Tier::nvme) chunk.read_bytes += bytes;
    if (tier == Tier::device) chunk.from_device_bytes += bytes;
    if (kind == StateKind::gradients) continue;
    if (tier == Tier::nvme) chunk.written_bytes += bytes;
    if (tier == Tier::device) chunk.to_device_bytes += bytes;
  }
  chunk.updated_bytes = static_cast<double>(update_bytes(plan_, elements));
  return chunk;
}

void PredictedOptimizer::begin_step(Lane& lane) {
  for (std::size_t u = 0; u < pending_.size(); ++u) pending_[u] = chunks_of_[u] > 0;
  issued_ = 0;
  updated_ = 0;
  issue_ahead(lane);
}

void PredictedOptimizer::apply(int unit, Lane& lane) {
  const std::size_t end = updated_ + chunks_of_[static_cast<std::size_t>(unit)];
  while (updated_ < end) {
    update(chunks_[updated_], buffer_of(updated_), lane);
    ++updated_;
    issue_ahead(lane);
  }
  pending_[static_cast<std::size_t>(unit)] = 0;
}

void PredictedOptimizer::issue_ahead(Lane& lane) {
  if (!plan_.stages_state()) return;
  for (; issued_ < std::min(chunks_.size(), updated_ + ring_.size() - 1); ++issued_) {
    issue(chunks_[issued_], buffer_of(issued_), lane);
  }
}

void PredictedOptimizer::issue(const Chunk& chunk, Buffer& buffer, Lane& lane) {
  machine_.wait(lane, {buffer.written, buffer.copied_out});
  if (chunk.read_bytes > 0) buffer.arrived = machine_.read(chunk.read_bytes, {lane.last});
  if (chunk.from_device_bytes > 0) {
    machine_.wait(copies_, {lane.last});
    machine_.copy_from_device(copies_, chunk.from_device_bytes);
    buffer.copied_in = copies_.last;
  }
}

void PredictedOptimizer::update(const Chunk& chunk, Buffer& buffer, Lane& lane) {
  if (chunk.read_bytes > 0) machine_.check(lane, buffer.arrived, chunk.read_bytes);
  machine_.wait(lane, {buffer.copied_in});
  machine_.update(lane, chunk.updated_bytes);
  if (chunk.written_bytes > 0) buffer.written = machine_.write(lane, chunk.written_bytes);
  if (chunk.to_device_bytes > 0) {
    machine_.wait(copies_, {lane.last});
    machine_.copy_to_device(copies_, chunk.to_device_bytes);
    buffer.copied_out = copies_.last;
  }
}

void PredictedOptimizer::finish(Lane& lane) {
  for (const Buffer& buffer : ring_) machine_.wait(lane, {buffer.written, buffer.copied_out});
}

}  // namespace strata::engine
