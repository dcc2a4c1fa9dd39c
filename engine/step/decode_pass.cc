#include "engine/step/decode_pass.h"

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/ops/embedding.h"
#include "models/resident_unit.h"

namespace strata::engine {

using models::Batch;
using offload::Lease;
using ops::Into;
using ops::Matrix;

DecodePass::DecodePass(const DecodeShape& shape, const std::vector<models::UnitSpec>& units,
                       const offload::Plan& plan, Device& device, Stream& compute,
                       offload::WeightStreamer& weights)
    : shape_(shape),
      units_(units),
      index_(index_units(units)),
      uses_(offload::schedule_slots(unit_walk(index_, WalkKind::evaluation).uses,
                                    plan.gathered_units(), plan.weight_slots, plan.prefetch)),
      compute_(compute),
      weights_(weights),
      cache_(device.allocate(kKvCacheTag, kv_cache_bytes(shape))),
      buffer_(device.allocate(kDecodeTag, decode_memory_bytes(shape))),
      memory_(models::lay_out<DecodeMemory>(buffer_.data(), shape)),
      host_(device.allocate_pinned(kDecodeTag, decode_host_bytes(shape))),
      rotary_(shape.config, shape.positions, kDecodeRotaryTag, device, compute),
      block_(shape.config, shape.precision, {1, shape.piece}, rotary_.tables()),
      head_(shape.config, shape.precision, {1, 1}) {
  compute_.fill_zero(cache_.data(), kv_cache_bytes(shape));
}

std::span<const float> DecodePass::next_logits(std::span<const std::int32_t> tokens,
                                               offload::PendingUpdates* updates) {
  STRATA_CHECK(!tokens.empty() && past_ + std::ssize(tokens) <= shape_.positions,
               "{} tokens after {}, in a cache of {}", tokens.size(), past_, shape_.positions);
  while (!tokens.empty()) {
    const auto rows = std::min(tokens.size(), static_cast<std::size_t>(shape_.piece));
    run(tokens.first(rows), std::exchange(updates, nullptr));
    tokens = tokens.subspan(rows);
  }
  const std::int64_t vocabulary = shape_.config.vocabulary;
  compute_.copy(host_.data(), memory_.logits, vocabulary * bytes_of(Dtype::f32));
  compute_.synchronize();
  return {host_.as<float>(), static_cast<std::size_t>(vocabulary)};
}

void DecodePass::run(std::span<const std::int32_t> piece, offload::PendingUpdates* updates) {
  const auto rows = static_cast<std::int64_t>(piece.size());
  upload(piece);
  weights_.begin(uses_, updates);
  embed(rows);
  const std::byte* const out = blocks(rows);
  head(out + (rows - 1) * shape_.config.hidden * bytes_of(shape_.precision));
  weights_.end();
  past_ += rows;
}

void DecodePass::upload(std::span<const std::int32_t> piece) {
  compute_.synchronize();  // the piece before may still be on its way from host_
  auto* const tokens = host_.as<std::int32_t>();
  std::int32_t* const positions = tokens + shape_.piece;
  std::ranges::copy(piece, tokens);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(past_ + static_cast<std::int64_t>(i));
  }
  const auto bytes = static_cast<std::int64_t>(piece.size_bytes());
  compute_.copy(memory_.tokens, tokens, bytes);
  compute_.copy(memory_.positions, positions, bytes);
}

// x = or += the rows of a table that `ids` names.
void DecodePass::embed_rows(int table, const std::int32_t* ids, Into into, std::int64_t rows) {
  const models::TensorSpec& piece = units_[static_cast<std::size_t>(table)].tensors[0];
  const std::int64_t hidden = shape_.config.hidden;
  const Lease lease = weights_.acquire(table);
  ops::embedding_forward(
      compute_, Matrix::dense(memory_.x.data, shape_.precision, rows, hidden), into, ids,
      models::read_only(lease.data(), shape_.precision, piece.rows, hidden), piece.first_row);
}

void DecodePass::embed(std::int64_t rows) {
  Into into = Into::overwrite;
  if (index_.learned_positions()) {
    embed_rows(index_.positions, memory_.positions, std::exchange(into, Into::add), rows);
  }
  for (const int chunk : index_.token_chunks) {
    embed_rows(chunk, memory_.tokens, std::exchange(into, Into::add), rows);
  }
}

// Returns the last one's output.
const std::byte* DecodePass::blocks(std::int64_t rows) {
  const Batch batch{.sequences = 1, .tokens = rows, .positions = memory_.positions};
  void* x = memory_.x.data;
  void* y = memory_.y.data;
  for (std::int64_t layer = 0; layer < shape_.config.layers; ++layer) {
    const Lease lease = weights_.acquire(index_.blocks[static_cast<std::size_t>(layer)]);
    block_.decode(compute_, batch, past_, layer_cache(layer), lease.data(), x, memory_.scratch, y);
    std::swap(x, y);
  }
  return static_cast<const std::byte*>(x);
}

void DecodePass::head(const std::byte* last_row) {
  {
    const Lease lease = weights_.acquire(index_.final_norm);
    head_.final_norm_forward(compute_, {1, 1}, lease.data(), last_row, memory_.head);
  }
  for (const int chunk : index_.head_chunks) {
    const models::TensorSpec& table = units_[static_cast<std::size_t>(chunk)].tensors[0];
    const Lease lease = weights_.acquire(chunk);
    head_.logits_of_row(compute_, lease.data(), table.rows, memory_.head, 0,
                        memory_.logits + table.first_row);
  }
}

ops::KvCache DecodePass::layer_cache(std::int64_t layer) const {
  const std::int64_t part_bytes = kv_cache_bytes(shape_) / (2 * shape_.config.layers);
  const auto part = [&](std::int64_t index) {
    return Matrix::dense(cache_.data() + index * part_bytes, shape_.precision, shape_.positions,
                         shape_.config.kv_channels());
  };
  return {.k = part(2 * layer), .v = part(2 * layer + 1)};
}

}  // namespace strata::engine
