// Causal multi-head self-attention on packed projections, tiled: the (T, T) matrix never exists.
//   qkv (B, T, 3C): q, k, v of every head, as GPT-2 packs them; C = heads × head_dim
//   out (B, T, C) = softmax(q·kᵀ / sqrt(head_dim), causal) · v
// Online softmax over key tiles of fixed size (Milakov & Gimelshein 2018; Dao et al. 2022), scores
// and statistics in f32; probabilities are rounded to the dtype of qkv before they multiply v. The
// tile sizes are constants, so bits depend neither on threads nor on budgets. Not supported:
// dropout, document masks, grouped queries.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

struct AttentionShape {
  std::int64_t batch = 0;   // B
  std::int64_t tokens = 0;  // T
  std::int64_t heads = 0;   // H
  std::int64_t head_dim = 0;
  std::int64_t rows() const { return batch * tokens; }
  std::int64_t channels() const { return heads * head_dim; }
};

// log_sum_exp (B, H, T) f32 is kept for the backward.
void attention_forward(Stream& stream, const AttentionShape& shape, Matrix out, float* log_sum_exp,
                       Matrix qkv);

// dqkv (B, T, 3C). `row_dots` (B, H, T) f32 is scratch.
void attention_backward(Stream& stream, const AttentionShape& shape, Matrix dqkv, float* row_dots,
                        Matrix dout, Matrix qkv, Matrix out, const float* log_sum_exp);

}  // namespace strata::ops
