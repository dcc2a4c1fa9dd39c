// One decoder block on resident memory: forward, and backward from saved activations; and for
// inference decode(), which takes the keys and values of earlier tokens from a cache.
//
//   x ─ norm ─ q, k, v (─ QK-norm) (─ rotary) ─ attention ─ projection ─(+x)─ r
//   r ─ norm ─ MLP in ─ GELU or SwiGLU ─ MLP out ─(+r)─ out
//
// Knows nothing of tiers or ranks: weights and gradients are flat units laid out by block_unit().
// All memory is device memory; everything is enqueued on the stream, nothing allocates.
// B and T may be smaller than the limits for a last, partial or a shorter micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/view.h"
#include "models/model_units.h"
#include "models/norm.h"

namespace strata::models {

// Shapes of one call, and what belongs to its rows, in device memory.
struct Batch {
  std::int64_t sequences = 0;  // B
  std::int64_t tokens = 0;     // T
  // (B·T): each token's position in its document, for position embeddings of both kinds.
  const std::int32_t* positions = nullptr;
  // (B·T): where in its sequence each token's document starts; null: a sequence is one document.
  const std::int32_t* document_starts = nullptr;
  std::int64_t rows() const { return sequences * tokens; }
};

class DecoderBlock {
 public:
  // `dtype`: of weights and activations. `limits`: the largest B and T. `rotary`: for models with
  // rotary positions, of at least the positions that batches have; not needed for the sizes below.
  DecoderBlock(const ModelConfig& config, Dtype dtype, Batch limits, ops::RotaryTables rotary = {});

  // Bytes of what forward() leaves for backward(), for the largest batch.
  std::int64_t saved_bytes() const { return saved_bytes_; }
  // Bytes of scratch for backward(), for the largest batch.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // weights: the unit's flat buffer. x, out (B·T, C): out may not be x.
  void forward(Stream& stream, Batch batch, const std::byte* weights, const void* x,
               std::byte* saved, void* out) const;

  // What forward() saves, again, without computing `out`: activation checkpointing.
  void recompute(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                 std::byte* saved) const;

  // gradients: the unit's flat buffer, f32; Into::overwrite also zeroes the gaps between tensors.
  // saved: of a forward() with the same batch, weights and x. dout (B·T, C) is read; dx (B·T, C)
  // may be x itself.
  void backward(Stream& stream, Batch batch, const std::byte* weights, float* gradients,
                ops::Into into, const void* x, const std::byte* saved, const void* dout, void* dx,
                std::byte* workspace) const;

  // The forward of tokens that follow `past` others of their sequence: `batch` is one sequence of
  // the new tokens alone, at positions past … , of one document. Their k and v join the layer's
  // cache. `scratch`: saved_bytes().
  void decode(Stream& stream, Batch batch, std::int64_t past, const ops::KvCache& cache,
              const std::byte* weights, const void* x, std::byte* scratch, void* out) const;

  // The linear layers, for choosing their arithmetic.
  std::vector<ops::MatmulShape> matmul_shapes() const;
  // Of the largest batch, as far as the block knows it: it may be trained or not.
  ops::PlannedAttention planned_attention() const;
  // Multiply-adds × 2 of one forward for a batch, attention (its causal half) included.
  double forward_flops(Batch batch) const;

 private:
  struct Saved;
  struct Workspace;
  struct Backward;
  Saved saved_of(std::byte* memory, Batch batch) const;
  Workspace workspace_of(std::byte* memory, Batch batch) const;
  void forward_qkv(Stream& stream, Batch batch, const ResidentWeights& w, const Saved& s,
                   const ops::Matrix& input) const;
  void forward_to_mlp(Stream& stream, const ResidentWeights& w, const Saved& s,
                      const ops::Matrix& input) const;
  void forward_output(Stream& stream, const ResidentWeights& w, const Saved& s, void* out) const;
  void backward_mlp(Stream& stream, const Backward& call) const;
  void backward_attention(Stream& stream, const Backward& call) const;
  ops::AttentionShape attention_shape(Batch batch) const;
  ops::AttentionOptions attention_options(Batch batch) const;
  std::int64_t mlp_in_columns() const;  // F, or 2F for gate and up
  std::int64_t qk_columns() const { return config_.channels() + config_.kv_channels(); }
  std::int64_t qkv_columns() const { return qk_columns() + config_.kv_channels(); }

  ModelConfig config_;
  Dtype dtype_;
  Batch limits_;
  ops::RotaryTables rotary_;
  Norm norm_;
  UnitSpec unit_;
  BlockTensors tensors_;
  std::int64_t saved_bytes_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace strata::models
