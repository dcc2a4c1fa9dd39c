#include "engine/step/model_pass.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/ops/embedding.h"
#include "models/resident_unit.h"

namespace strata::engine {

using models::Batch;
using offload::Lease;
using ops::Into;
using ops::Matrix;

namespace {

Into into(int micro_batch) { return micro_batch == 0 ? Into::overwrite : Into::add; }

const std::int32_t* tokens_of(const MicroBatch& batch) { return batch.tokens; }
const std::int32_t* positions_of(const MicroBatch& batch) { return batch.batch.positions; }

}  // namespace

ModelPass::ModelPass(const PassShape& shape, std::vector<models::UnitSpec> units,
                     const offload::Plan& plan, Device& device, Stream& compute,
                     offload::WeightStreamer& weights, offload::ActivationStore& activations,
                     offload::GradientSink* gradients)
    : shape_(shape),
      units_(std::move(units)),
      index_(index_units(units_)),
      walk_shape_(largest_walk(shape, index_)),
      plan_(plan),
      compute_(compute),
      weights_(weights),
      activations_(activations),
      gradients_(gradients),
      rotary_(shape.config, shape.micro_batch.tokens, kRotaryTag, device, compute),
      block_(shape.config, shape.precision, shape.micro_batch, rotary_.tables()),
      head_(shape.config, shape.precision, shape.micro_batch),
      saved_(device.allocate("block activations", block_.saved_bytes())),
      head_rows_bytes_(head_rows_bytes(shape)),
      head_rows_(
          device.allocate("head statistics", shape.micro_batches_max * head_rows_bytes(shape))),
      workspace_(device.allocate("compute workspace", workspace_bytes(shape))) {}

void ModelPass::forward(std::span<const MicroBatch> batches, double* loss_sum,
                        offload::PendingUpdates* updates) {
  STRATA_CHECK(gradients_ != nullptr, "a pass made for inference");
  begin(WalkKind::training, batches, updates);
  embed(batches);
  blocks_forward(batches, WalkKind::training);
  head_forward(batches, loss_sum);
}

void ModelPass::backward(std::span<const MicroBatch> batches, PassOrder order, float scale) {
  head_backward(batches, order, scale);
  blocks_backward(batches, order);
  embed_backward(batches, order);
  end();
}

void ModelPass::evaluate(std::span<const MicroBatch> batches, double* loss_sum,
                         offload::PendingUpdates* updates, ops::TargetCounts* counts) {
  begin(WalkKind::evaluation, batches, updates);
  embed(batches);
  blocks_forward(batches, WalkKind::evaluation);
  head_forward(batches, loss_sum, counts);
  end();
}

void ModelPass::gather_all(offload::PendingUpdates* updates) {
  begin(WalkKind::gathering, {}, updates);
  for (const int unit : first_use_order(index_)) weights_.acquire(unit);
  end();
}

const ModelPass::Walk& ModelPass::walk(WalkKind kind, std::size_t micro_batches) {
  const int count = static_cast<int>(micro_batches);
  for (const Walk& walk : walks_) {
    if (walk.kind == kind && walk.micro_batches == count) return walk;
  }
  WalkShape shape = walk_shape_;
  shape.micro_batches = count;
  Walk walk{kind, count, {}, {}};
  walk.uses = offload::schedule_slots(unit_walk(index_, kind).uses, plan_.gathered_units(),
                                      plan_.weight_slots, plan_.prefetch);
  if (plan_.activations != offload::Tier::device) {
    walk.accesses = offload::schedule_records(record_walk(shape, kind).accesses, plan_.record_slots,
                                              plan_.record_lookahead());
  }
  return walks_.emplace_back(std::move(walk));
}

void ModelPass::begin(WalkKind kind, std::span<const MicroBatch> batches,
                      offload::PendingUpdates* updates) {
  const Walk& schedule = walk(kind, batches.size());
  weights_.begin(schedule.uses, updates);
  activations_.begin(schedule.accesses);
}

void ModelPass::end() {
  weights_.end();
  activations_.end();
}

// x = or += the rows of a table that `ids` names.
void ModelPass::embed_rows(int table, const std::int32_t* (*ids)(const MicroBatch&), Into into,
                           std::span<const MicroBatch> batches) {
  const std::int64_t hidden = shape_.config.hidden;
  const models::TensorSpec& piece = this->table(table);
  const Lease lease = weights_.acquire(table);
  const Matrix rows = models::read_only(lease.data(), shape_.precision, piece.rows, hidden);
  for (std::size_t j = 0; j < batches.size(); ++j) {
    std::byte* const x = activations_.open(block_record(walk_shape_, 0, static_cast<int>(j)));
    ops::embedding_forward(compute_,
                           Matrix::dense(x, shape_.precision, batches[j].batch.rows(), hidden),
                           into, ids(batches[j]), rows, piece.first_row);
    activations_.end_turn();
  }
}

void ModelPass::embed(std::span<const MicroBatch> batches) {
  if (index_.learned_positions())
    embed_rows(index_.positions, positions_of, Into::overwrite, batches);
  for (const int chunk : index_.token_chunks) {
    const bool first = chunk == index_.token_chunks.front() && !index_.learned_positions();
    embed_rows(chunk, tokens_of, first ? Into::overwrite : Into::add, batches);
  }
}

// Where a block's forward leaves what its backward needs.
std::byte* ModelPass::open_saved(int layer, int micro_batch) {
  return shape_.recompute ? saved_.data()
                          : activations_.open(saved_record(walk_shape_, layer, micro_batch));
}

models::HeadMemory ModelPass::head_memory(int micro_batch, std::byte* normed,
                                          std::byte* dnormed) const {
  return {normed, dnormed, head_rows_.data() + micro_batch * head_rows_bytes_};
}

void ModelPass::blocks_forward(std::span<const MicroBatch> batches, WalkKind kind) {
  for (int layer = 0; layer < walk_shape_.layers; ++layer) {
    const Lease lease = weights_.acquire(index_.blocks[static_cast<std::size_t>(layer)]);
    for (std::size_t j = 0; j < batches.size(); ++j) {
      const int micro = static_cast<int>(j);
      std::byte* const x = activations_.open(block_record(walk_shape_, layer, micro));
      std::byte* const out = activations_.open(block_record(walk_shape_, layer + 1, micro));
      std::byte* const saved =
          kind == WalkKind::training ? open_saved(layer, micro) : saved_.data();
      block_.forward(compute_, batches[j].batch, lease.data(), x, saved, out);
      activations_.end_turn();
    }
  }
}

void ModelPass::final_norm(std::span<const MicroBatch> batches) {
  const Lease lease = weights_.acquire(index_.final_norm);
  for (std::size_t j = 0; j < batches.size(); ++j) {
    const int micro = static_cast<int>(j);
    const std::byte* const x =
        activations_.open(block_record(walk_shape_, walk_shape_.layers, micro));
    std::byte* const normed = activations_.open(normed_record(walk_shape_, micro));
    head_.final_norm_forward(compute_, batches[j].batch, lease.data(), x,
                             head_memory(micro, normed, nullptr));
    activations_.end_turn();
  }
}

void ModelPass::head_forward(std::span<const MicroBatch> batches, double* loss_sum,
                             ops::TargetCounts* counts) {
  final_norm(batches);
  for (const int chunk : index_.head_chunks) {
    const Lease lease = weights_.acquire(chunk);
    for (std::size_t j = 0; j < batches.size(); ++j) {
      const int micro = static_cast<int>(j);
      const models::HeadMemory memory =
          head_memory(micro, activations_.open(normed_record(walk_shape_, micro)), nullptr);
      head_.chunk_forward(compute_, batches[j].batch, lease.data(), table(chunk).first_row,
                          table(chunk).rows, memory, batches[j].targets, workspace_.data());
      if (chunk == index_.head_chunks.back()) {
        head_.finish_loss(compute_, batches[j].batch, memory, batches[j].targets, loss_sum, counts);
      }
      activations_.end_turn();
    }
  }
}

// A gradient slot for the pass. A rank whose share ended before this pass contributes zeros.
float* ModelPass::open_gradients(int unit, std::span<const MicroBatch> batches) {
  float* const gradients = gradients_->open(unit);
  if (batches.empty()) compute_.fill_zero(gradients, this->unit(unit).elements * 4);
  return gradients;
}

void ModelPass::head_backward(std::span<const MicroBatch> batches, PassOrder order, float scale) {
  for (const int chunk : index_.head_chunks) {
    const Lease lease = weights_.acquire(chunk);
    float* const dtable = open_gradients(chunk, batches);
    for (std::size_t j = 0; j < batches.size(); ++j) {
      const int micro = static_cast<int>(j);
      std::byte* const normed = activations_.open(normed_record(walk_shape_, micro));
      std::byte* const dnormed = activations_.open(dnormed_record(walk_shape_, micro));
      head_.chunk_backward(compute_, batches[j].batch, lease.data(), dtable, into(micro),
                           table(chunk).first_row, table(chunk).rows,
                           head_memory(micro, normed, dnormed), batches[j].targets, scale,
                           workspace_.data());
      activations_.end_turn();
    }
    // Of a tied table the embedding's rows are still to come.
    gradients_->close({chunk, order.first, order.last && !index_.tied()});
  }
  const Lease lease = weights_.acquire(index_.final_norm);
  float* const dnorm = open_gradients(index_.final_norm, batches);
  for (std::size_t j = 0; j < batches.size(); ++j) {
    const int micro = static_cast<int>(j);
    std::byte* const x = activations_.open(block_record(walk_shape_, walk_shape_.layers, micro));
    std::byte* const dnormed = activations_.open(dnormed_record(walk_shape_, micro));
    head_.final_norm_backward(compute_, batches[j].batch, lease.data(), dnorm, into(micro), x,
                              head_memory(micro, nullptr, dnormed), x);
    activations_.end_turn();
  }
  gradients_->close({index_.final_norm, order.first, order.last});
}

void ModelPass::blocks_backward(std::span<const MicroBatch> batches, PassOrder order) {
  for (int layer = walk_shape_.layers; layer-- > 0;) {
    const int index = index_.blocks[static_cast<std::size_t>(layer)];
    const Lease lease = weights_.acquire(index);
    float* const gradients = open_gradients(index, batches);
    for (std::size_t j = 0; j < batches.size(); ++j) {
      const int micro = static_cast<int>(j);
      const Batch batch = batches[j].batch;
      std::byte* const x = activations_.open(block_record(walk_shape_, layer, micro));
      std::byte* const dout = activations_.open(block_record(walk_shape_, layer + 1, micro));
      std::byte* const saved = open_saved(layer, micro);
      if (shape_.recompute) block_.recompute(compute_, batch, lease.data(), x, saved);
      block_.backward(compute_, batch, lease.data(), gradients, into(micro), x, saved, dout, x,
                      workspace_.data());
      activations_.end_turn();
    }
    gradients_->close({index, order.first, order.last});
  }
}

// The gradient of a table, opened, from that of x.
void ModelPass::embed_rows_backward(int table, const std::int32_t* (*ids)(const MicroBatch&),
                                    std::span<const MicroBatch> batches) {
  const std::int64_t hidden = shape_.config.hidden;
  const models::TensorSpec& piece = this->table(table);
  const Matrix dtable =
      Matrix::dense(open_gradients(table, batches), Dtype::f32, piece.rows, hidden);
  for (std::size_t j = 0; j < batches.size(); ++j) {
    std::byte* const dx = activations_.open(block_record(walk_shape_, 0, static_cast<int>(j)));
    ops::embedding_backward(compute_, dtable, into(static_cast<int>(j)),
                            Matrix::dense(dx, shape_.precision, batches[j].batch.rows(), hidden),
                            ids(batches[j]), piece.first_row);
    activations_.end_turn();
  }
}

void ModelPass::embed_backward(std::span<const MicroBatch> batches, PassOrder order) {
  if (index_.learned_positions()) {
    embed_rows_backward(index_.positions, positions_of, batches);
    gradients_->close({index_.positions, order.first, order.last});
  }
  for (const int chunk : index_.token_chunks) {
    embed_rows_backward(chunk, tokens_of, batches);
    gradients_->close({chunk, order.first && !index_.tied(), order.last});
  }
}

}  // namespace strata::engine
