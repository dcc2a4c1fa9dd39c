#include "engine/step/streaming_optimizer.h"

#include <algorithm>
#include <atomic>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;
using offload::Tier;

namespace {

constexpr std::int64_t kTileElements = 16384;

// Element `first` of one kind of a chunk.
template <typename T>
T* from(const std::array<std::byte*, offload::kStateKinds>& at, StateKind kind,
        std::int64_t first) {
  return reinterpret_cast<T*>(at[static_cast<std::size_t>(kind)]) + first;
}

}  // namespace

StreamingOptimizer::StreamingOptimizer(const OptimizerParts& parts, std::vector<int> order,
                                       std::vector<std::vector<ParameterSegment>> groups,
                                       double weight_decay, Isa isa)
    : store_(parts.store),
      plan_(parts.store.plan()),
      workers_(parts.workers),
      tracer_(parts.tracer),
      rank_(parts.rank),
      order_(std::move(order)),
      groups_(std::move(groups)),
      weight_decay_(static_cast<float>(weight_decay)),
      isa_(isa),
      pending_(plan_.units.size(), 0) {
  const bool deferred = plan_.update == offload::UpdateTime::deferred;
  streamed_ = {StateKind::remainder, StateKind::moment1, StateKind::moment2,
               deferred ? StateKind::gradients : StateKind::weights};
  std::erase_if(streamed_, [&](StateKind kind) { return bytes_of_kind(kind) == 0; });
  for (const int unit : order_) {
    first_chunk_.push_back(chunks_.size());
    const std::int64_t shard = store_.unit(unit).shard_elements;
    for (std::int64_t first = 0; first < shard; first += plan_.chunk_elements) {
      chunks_.push_back({unit, first, std::min(plan_.chunk_elements, shard - first)});
    }
  }
  first_chunk_.push_back(chunks_.size());
  applied_ = order_.size();
  if (tracer_ != nullptr) track_ = tracer_->add_track("optimizer");
  if (!plan_.stages_state()) return;
  copies_ = parts.device.make_stream("opt copy");
  for (Buffer& buffer : ring_) {
    buffer.memory =
        parts.device.allocate_pinned("optimizer staging", optimizer_buffer_bytes(plan_));
    buffer.copied_in = parts.device.make_event();
    buffer.copied_out = parts.device.make_event();
  }
}

StreamingOptimizer::~StreamingOptimizer() = default;

std::int64_t StreamingOptimizer::bytes_of_kind(StateKind kind) const {
  return offload::element_bytes(kind, plan_.dtypes);
}

AlignedSpan StreamingOptimizer::scratch() const {
  return plan_.stages_state() ? ring_[0].memory.span() : AlignedSpan();
}

void StreamingOptimizer::begin_step(const optim::AdamStep& step) {
  STRATA_CHECK(!any_pending());
  step_ = step;
  update_traffic_ = {};
  std::fill(pending_.begin(), pending_.end(), 1);
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
  // The WeightStreamer writes them back.
  if (store_.tier(unit, StateKind::weights) == Tier::nvme) {
    update_traffic_.written_bytes += weights.bytes();
  }
}

void StreamingOptimizer::apply_final(int unit, const void* gradient) {
  update_unit(unit, nullptr, static_cast<const std::byte*>(gradient));
}

void StreamingOptimizer::update_unit(int unit, std::byte* weights, const std::byte* gradient) {
  STRATA_CHECK(applied_ < order_.size() && order_[applied_] == unit, "unit {} is not next", unit);
  for (std::size_t c = first_chunk_[applied_]; c < first_chunk_[applied_ + 1]; ++c) {
    update(c, weights, gradient);
    issue_ahead();
  }
  pending_[static_cast<std::size_t>(unit)] = 0;
  ++applied_;
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
  buffer.writes.wait();
  buffer.copied_out->synchronize();
  bool from_device = false;
  for (const StateKind kind : streamed_) {
    const Tier tier = store_.tier(chunk.unit, kind);
    if (tier == Tier::host) continue;
    const std::int64_t offset = chunk.first * bytes_of_kind(kind);
    const AlignedSpan destination = part(index, kind);
    if (tier == Tier::nvme) {
      store_.read(chunk.unit, kind, offset, destination, buffer.reads);
      update_traffic_.read_bytes += destination.bytes();
    } else {
      copies_->copy(destination.data(), store_.device(chunk.unit, kind) + offset,
                    destination.bytes());
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
    offset += plan_.chunk_elements * bytes_of_kind(other);
  }
  return ring_[index % ring_.size()].memory.span(offset,
                                                 chunks_[index].elements * bytes_of_kind(kind));
}

StreamingOptimizer::Pointers StreamingOptimizer::locate(std::size_t index) const {
  const Chunk& chunk = chunks_[index];
  Pointers at{};
  for (const StateKind kind : streamed_) {
    at[static_cast<std::size_t>(kind)] =
        store_.tier(chunk.unit, kind) == Tier::host
            ? store_.host(chunk.unit, kind).data() + chunk.first * bytes_of_kind(kind)
            : part(index, kind).data();
  }
  return at;
}

void StreamingOptimizer::update(std::size_t index, std::byte* weights, const std::byte* gradient) {
  const Chunk& chunk = chunks_[index];
  Buffer& buffer = ring_[index % ring_.size()];
  if (plan_.stages_state()) {
    buffer.reads.wait();
    buffer.copied_in->synchronize();
  }
  Pointers at = locate(index);
  const auto set = [&](StateKind kind, std::byte* shard) {
    at[static_cast<std::size_t>(kind)] = shard + chunk.first * bytes_of_kind(kind);
  };
  if (weights != nullptr) set(StateKind::weights, weights);
  if (gradient != nullptr) set(StateKind::gradients, const_cast<std::byte*>(gradient));
  {
    const TraceSpan span(tracer_, track_, "adam", chunk.elements);
    run_adam(chunk, at);
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
    const std::int64_t offset = chunk.first * bytes_of_kind(kind);
    const AlignedSpan source = part(index, kind);
    if (tier == Tier::nvme) {
      store_.write(chunk.unit, kind, offset, source, buffer.writes);
      update_traffic_.written_bytes += source.bytes();
    } else {
      copies_->copy(store_.device(chunk.unit, kind) + offset, source.data(), source.bytes());
      to_device = true;
    }
  }
  if (to_device) copies_->record(*buffer.copied_out);
}

void StreamingOptimizer::run_adam(const Chunk& chunk, const Pointers& at) {
  std::atomic<bool> in_domain{true};
  const std::int64_t tiles = ceil_div(chunk.elements, kTileElements);
  workers_.parallel_for(tiles, [&](std::int64_t tile, int) {
    const std::int64_t first = tile * kTileElements;
    const std::int64_t last = std::min(first + kTileElements, chunk.elements);
    // Positions in the unsharded unit decide about weight decay.
    const std::int64_t origin = rank_ * store_.unit(chunk.unit).shard_elements + chunk.first;
    for (const ParameterSegment& segment : groups_[static_cast<std::size_t>(chunk.unit)]) {
      const std::int64_t from = std::max(first, segment.first - origin);
      const std::int64_t to = segment.last - origin < last ? segment.last - origin : last;
      if (from >= to) continue;
      if (!adam_range(at, from, to, segment.decay)) in_domain = false;
    }
  });
  if (!in_domain) {
    throw_error<TrainingError>(
        "the update of {} at step {} left the range of finite weights; lower --lr or set "
        "--clip-norm",
        store_.unit(chunk.unit).name, step_.step);
  }
}

bool StreamingOptimizer::adam_range(const Pointers& at, std::int64_t first, std::int64_t last,
                                    bool decay) const {
  optim::AdamStep step = step_;
  step.weight_decay = decay ? weight_decay_ : 0.0f;
  const std::int64_t elements = last - first;
  float* const moment1 = from<float>(at, StateKind::moment1, first);
  float* const moment2 = from<float>(at, StateKind::moment2, first);
  const bool bf16_gradients = plan_.dtypes.gradients == Dtype::bf16;
  const auto* gradient_f32 =
      bf16_gradients ? nullptr : from<float>(at, StateKind::gradients, first);
  const auto* gradient_bf16 =
      bf16_gradients ? from<bf16>(at, StateKind::gradients, first) : nullptr;
  if (plan_.dtypes.weights == Dtype::f32) {
    return optim::adam_update(step,
                              optim::F32State{from<float>(at, StateKind::weights, first), moment1,
                                              moment2, gradient_f32, gradient_bf16, elements},
                              isa_);
  }
  return optim::adam_update(
      step,
      optim::SplitState{from<bf16>(at, StateKind::weights, first),
                        from<std::int16_t>(at, StateKind::remainder, first), moment1, moment2,
                        gradient_f32, gradient_bf16, elements},
      isa_);
}

void StreamingOptimizer::finish() {
  if (!plan_.stages_state()) return;
  for (Buffer& buffer : ring_) {
    buffer.writes.wait();
    buffer.copied_out->synchronize();
  }
}

}  // namespace strata::engine
