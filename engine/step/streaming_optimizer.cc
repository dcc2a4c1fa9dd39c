#include "engine/step/streaming_optimizer.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::engine {

using offload::Account;
using offload::Link;
using offload::StateKind;
using offload::Tier;

StreamingOptimizer::StreamingOptimizer(const OptimizerParts& parts, std::vector<int> order,
                                       std::vector<std::vector<ParameterSegment>> groups,
                                       double weight_decay, Isa isa)
    : store_(parts.store),
      plan_(parts.store.plan()),
      workers_(parts.workers),
      row_(parts.tracer, span_names::kOptimizer),
      rank_(parts.rank),
      order_(std::move(order)),
      groups_(std::move(groups)),
      weight_decay_(weight_decay),
      isa_(isa),
      tile_elements_(std::gcd(optim::kTileElements, plan_.block_elements)),
      streamed_(streamed_kinds(plan_)),
      on_device_(parts.on_device),
      pending_(plan_.units.size(), 0) {
  std::erase_if(order_, [&](int unit) { return store_.unit(unit).frozen; });
  for (const int unit : order_) {
    first_chunk_.push_back(chunks_.size());
    if (store_.unit(unit).updated_on_device) continue;
    const std::int64_t shard = store_.unit(unit).shard_elements;
    for (std::int64_t first = 0; first < shard; first += plan_.chunk_elements) {
      chunks_.push_back({unit, first, std::min(plan_.chunk_elements, shard - first)});
    }
  }
  first_chunk_.push_back(chunks_.size());
  applied_ = order_.size();
  std::size_t segments_max = 0;
  for (const auto& group : groups_) segments_max = std::max(segments_max, group.size());
  segments_.resize(static_cast<std::size_t>(workers_.worker_slots()));
  for (auto& segments : segments_) segments.reserve(segments_max);
  if (plan_.stages_state() || plan_.device_updates) copies_ = parts.device.make_stream("opt copy");
  if (plan_.stages_state()) make_ring(parts.device);
  if (plan_.device_updates) prepare_device_updates(parts.device);
}

StreamingOptimizer::~StreamingOptimizer() = default;

void StreamingOptimizer::make_ring(Device& device) {
  const std::int64_t bytes = optimizer_buffer_bytes(plan_);
  const auto count = static_cast<std::int64_t>(ring_.size());
  memory_ = device.allocate_pinned("optimizer staging", bytes * count);
  store_.register_memory(memory_.span());
  for (std::int64_t i = 0; i < count; ++i) {
    Buffer& buffer = ring_[static_cast<std::size_t>(i)];
    buffer.memory = memory_.span(i * bytes, bytes);
    buffer.writes.report_to(store_.lasting_writes());
    buffer.copied_in = device.make_event();
    buffer.copied_out = device.make_event();
  }
}

void StreamingOptimizer::begin_step(const optim::StepSettings& settings, double learning_rate) {
  STRATA_CHECK(!any_pending());
  settings_ = settings;
  learning_rate_ = learning_rate;
  counted_before_ = store_.ledger().total(Account::update);
  for (const int unit : order_) pending_[static_cast<std::size_t>(unit)] = 1;
  applied_ = 0;
  issued_ = 0;
  updated_ = 0;
  issue_ahead();
}

bool StreamingOptimizer::pending(int unit) const {
  return pending_[static_cast<std::size_t>(unit)] != 0;
}

void StreamingOptimizer::apply(int unit, AlignedSpan weights) {
  update_unit(unit, weights.data(), nullptr);
}

void StreamingOptimizer::apply_final(int unit, const void* gradient) {
  update_unit(unit, nullptr, static_cast<const std::byte*>(gradient));
  store_.end_update(unit);
}

void StreamingOptimizer::expect_next(int unit) const {
  STRATA_CHECK(applied_ < order_.size() && order_[applied_] == unit, "unit {} is not next", unit);
}

void StreamingOptimizer::end_unit(int unit) {
  pending_[static_cast<std::size_t>(unit)] = 0;
  ++applied_;
  if (!any_pending()) check_device_updates();
}

void StreamingOptimizer::update_unit(int unit, std::byte* weights, const std::byte* gradient) {
  expect_next(unit);
  for (std::size_t c = first_chunk_[applied_]; c < first_chunk_[applied_ + 1]; ++c) {
    update(c, weights, gradient);
    issue_ahead();
  }
  end_unit(unit);
}

void StreamingOptimizer::refuse_update_of(int unit) const {
  throw_error<TrainingError>(
      "the update of {} at step {} left the range of finite weights; lower --lr or --clip-norm",
      store_.unit(unit).name, settings_.step);
}

// Starts reads as far ahead as the ring allows: its buffers hold the chunk at hand and those after.
void StreamingOptimizer::issue_ahead() {
  while (issued_ < chunks_.size() && issued_ < updated_ + ring_.size() - 1) {
    issue(issued_++);
  }
}

void StreamingOptimizer::issue(std::size_t index) {
  if (!plan_.stages_state()) return;
  const Chunk& chunk = chunks_[index];
  Buffer& buffer = ring_[index % ring_.size()];
  {
    const TraceSpan span(row_, span_names::kWaitWrite);
    buffer.writes.wait();
    buffer.copied_out->synchronize();
  }
  bool from_device = false;
  for (const StateKind kind : streamed_) {
    const Tier tier = store_.tier(chunk.unit, kind);
    if (tier == Tier::host) continue;
    const std::int64_t offset = bytes(kind, chunk.first);
    const AlignedSpan destination = part(index, kind);
    if (tier == Tier::nvme) {
      store_.read(chunk.unit, kind, offset, destination, buffer.reads, Account::update);
    } else {
      copies_->copy(destination.data(), store_.device(chunk.unit, kind) + offset,
                    destination.bytes());
      store_.ledger().add(Account::update, Link::from_device, moved(kind), destination.bytes());
      from_device = true;
    }
  }
  if (from_device) copies_->record(*buffer.copied_in);
}

// The piece of a chunk's buffer that carries one kind.
AlignedSpan StreamingOptimizer::part(std::size_t index, StateKind kind) const {
  std::int64_t offset = 0;
  for (const StateKind other : streamed_) {
    if (other == kind) break;
    offset += bytes(other, plan_.chunk_elements);
  }
  return ring_[index % ring_.size()].memory.sub(offset, bytes(kind, chunks_[index].elements));
}

StreamingOptimizer::Pointers StreamingOptimizer::locate(std::size_t index) const {
  const Chunk& chunk = chunks_[index];
  Pointers at{};
  for (const StateKind kind : streamed_) {
    at[static_cast<std::size_t>(kind)] =
        store_.tier(chunk.unit, kind) == Tier::host
            ? store_.host(chunk.unit, kind).data() + bytes(kind, chunk.first)
            : part(index, kind).data();
  }
  return at;
}

void StreamingOptimizer::update(std::size_t index, std::byte* weights, const std::byte* gradient) {
  const Chunk& chunk = chunks_[index];
  Buffer& buffer = ring_[index % ring_.size()];
  if (plan_.stages_state()) {
    const TraceSpan span(row_, span_names::kWaitRead);
    buffer.reads.wait();
    buffer.copied_in->synchronize();
  }
  Pointers at = locate(index);
  const auto set = [&](StateKind kind, std::byte* shard) {
    at[static_cast<std::size_t>(kind)] = shard + bytes(kind, chunk.first);
  };
  if (weights != nullptr) set(StateKind::weights, weights);
  if (gradient != nullptr) set(StateKind::gradients, const_cast<std::byte*>(gradient));
  {
    const TraceSpan span(row_, span_names::kUpdate);
    run_update(chunk, at);
  }
  write_back(index);
  updated_ = index + 1;
}

void StreamingOptimizer::write_back(std::size_t index) {
  const Chunk& chunk = chunks_[index];
  Buffer& buffer = ring_[index % ring_.size()];
  bool to_device = false;
  for (const StateKind kind : streamed_) {
    if (kind == StateKind::gradients) continue;
    const Tier tier = store_.tier(chunk.unit, kind);
    if (tier == Tier::host) continue;
    const std::int64_t offset = bytes(kind, chunk.first);
    const AlignedSpan source = part(index, kind);
    if (tier == Tier::nvme) {
      store_.write(chunk.unit, kind, offset, source, buffer.writes, Account::update);
    } else {
      copies_->copy(store_.device(chunk.unit, kind) + offset, source.data(), source.bytes());
      store_.ledger().add(Account::update, Link::to_device, moved(kind), source.bytes());
      to_device = true;
    }
  }
  if (!to_device) return;
  copies_->record(*buffer.copied_out);
  store_.note_device_write(*copies_, offload::StateStore::DeviceWriter::optimizer);
}

void StreamingOptimizer::run_update(const Chunk& chunk, const Pointers& at) {
  std::atomic<bool> in_domain{true};
  workers_.parallel_for(ceil_div(chunk.elements, tile_elements_), [&](std::int64_t tile,
                                                                      int worker) {
    const std::int64_t first = tile * tile_elements_;
    const std::int64_t last = std::min(first + tile_elements_, chunk.elements);
    auto& segments = segments_[static_cast<std::size_t>(worker)];
    const optim::State state = state_of(chunk, at, first, last);
    cut_segments(chunk.unit, state.first_element, state.first_element + state.elements, segments);
    if (!optim::update(settings_, segments, state, isa_)) in_domain = false;
  });
  if (!in_domain) refuse_update_of(chunk.unit);
}

// Elements [first, last) of a chunk, which are within one block.
optim::State StreamingOptimizer::state_of(const Chunk& chunk, const Pointers& at,
                                          std::int64_t first, std::int64_t last) const {
  const auto from = [&](StateKind kind) {
    return at[static_cast<std::size_t>(kind)] + first * element_bytes(kind, plan_.dtypes);
  };
  optim::State state;
  state.weight = from(StateKind::weights);
  if (exists(StateKind::remainder, plan_.dtypes)) {
    state.remainder = reinterpret_cast<std::int16_t*>(from(StateKind::remainder));
  }
  state.moments = plan_.dtypes.moments;
  state.moment1 = moment(chunk, at, StateKind::moment1, first);
  state.moment2 = moment(chunk, at, StateKind::moment2, first);
  state.gradient = from(StateKind::gradients);
  state.gradient_dtype = plan_.dtypes.gradients;
  state.elements = last - first;
  state.first_element = rank_ * store_.unit(chunk.unit).shard_elements + chunk.first + first;
  state.unit = static_cast<std::uint64_t>(chunk.unit);
  return state;
}

// The segments of elements [first, last) of the unsharded unit, counted from `first`.
void StreamingOptimizer::cut_segments(int unit, std::int64_t first, std::int64_t last,
                                      std::vector<optim::Segment>& segments) const {
  segments.clear();
  for (const ParameterSegment& group : groups_[static_cast<std::size_t>(unit)]) {
    if (group.last <= first) continue;
    segments.push_back({std::min(group.last, last) - first,
                        static_cast<float>(learning_rate_ * group.lr_scale),
                        static_cast<float>(group.decay ? weight_decay_ : 0.0), group.frozen()});
    if (group.last >= last) return;
  }
}

optim::Moment StreamingOptimizer::moment(const Chunk& chunk, const Pointers& at, StateKind kind,
                                         std::int64_t element) const {
  if (!exists(kind, plan_.dtypes)) return {};
  std::byte* const begin = at[static_cast<std::size_t>(kind)];
  if (plan_.dtypes.moments != MomentFormat::int8) {
    return {begin + element * element_bytes(kind, plan_.dtypes), nullptr};
  }
  const offload::Int8Offsets offsets =
      offload::int8_offsets(element, chunk.elements, plan_.block_elements);
  return {begin + offsets.code_bytes, reinterpret_cast<float*>(begin + offsets.scale_bytes)};
}

offload::Traffic StreamingOptimizer::update_traffic() const {
  offload::Traffic traffic = store_.ledger().total(Account::update);
  traffic -= counted_before_;
  return traffic;
}

void StreamingOptimizer::finish() {
  if (!plan_.stages_state()) return;
  for (Buffer& buffer : ring_) {
    buffer.writes.wait();
    buffer.copied_out->synchronize();
  }
}

}  // namespace strata::engine
