// Causal self-attention with grouped queries, tiled: the (T, T) matrix never exists.
//   q (B·T, H·D); k, v (B·T, Hkv·D): three views, of one packed projection or of three
//   out (B·T, H·D): of head h, softmax(scale·q·kᵀ where visible) · v, with the k and v of head
//   h / (H / Hkv) (Ainslie et al. 2023; Hkv = H: multi-head attention, Hkv = 1: multi-query)
// Online softmax over key tiles of fixed size (Milakov & Gimelshein 2018; Dao et al. 2022), scores
// and statistics in f32; probabilities are rounded to the dtype of q before they multiply v, but
// for a single new token on a cuda device. Tiles where nothing is visible are skipped. Every sum is
// over tiles in a fixed order, so bits depend neither on threads nor on budgets. Not supported:
// dropout.
//
// For inference attention_with_cache() takes the keys and values of earlier tokens from a cache,
// like flash_attn_with_kvcache of Dao's flash-attention.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

struct AttentionShape {
  std::int64_t batch = 0;     // B
  std::int64_t tokens = 0;    // T
  std::int64_t heads = 0;     // H, a multiple of kv_heads
  std::int64_t kv_heads = 0;  // Hkv
  std::int64_t head_dim = 0;  // D
  std::int64_t rows() const { return batch * tokens; }
  std::int64_t channels() const { return heads * head_dim; }
  std::int64_t kv_channels() const { return kv_heads * head_dim; }
  std::int64_t packed_channels() const { return channels() + 2 * kv_channels(); }
  std::int64_t heads_per_kv_head() const { return heads / kv_heads; }
  auto operator<=>(const AttentionShape&) const = default;
};

struct AttentionOptions {
  std::optional<float> scale = std::nullopt;  // of q·kᵀ, > 0; 1/sqrt(D) where none is given
  // Query i sees the keys i - window < j <= i; 0: every j <= i.
  std::int64_t window = 0;
  // (B, T), device memory: the position at which each token's document starts, at most its own and
  // never below that of the token before; earlier keys are not visible. Null: one document.
  const std::int32_t* document_starts = nullptr;
};

// The calls that a run has most of: in bf16, of whole sequences of one document, scaled by
// 1/sqrt(D), with v and all gradients in packed projections, q and k in one too or in one of their
// own, and out dense. For these a library may make plans when ops are attached, and it computes no
// others: whose kernels compute a call follows from the two alone, not from what was called before.
struct PlannedAttention {
  AttentionShape shape;        // of a full micro-batch, others have fewer sequences; H 0: no plans
  std::int64_t window = 0;     // as in AttentionOptions
  std::int64_t qk_stride = 0;  // elements from row to row of q and of k
  bool has_backward = false;
  std::int64_t workspace_bytes_max = std::int64_t{256} << 20;  // of the backward
};

// q, k, v or their gradients.
struct Qkv {
  Matrix q;  // (B·T, H·D)
  Matrix k;  // (B·T, Hkv·D)
  Matrix v;  // (B·T, Hkv·D)
};

// The three parts of a packed projection (B·T, (H + 2·Hkv)·D): q of every head, then k, then v.
Qkv unpack(const AttentionShape& shape, const Matrix& packed);

// log_sum_exp (B, H, T) f32 is kept for the backward.
void attention_forward(Stream& stream, const AttentionShape& shape, const AttentionOptions& options,
                       Matrix out, float* log_sum_exp, const Qkv& qkv);

// `gradients` are of q, k and v. `row_dots` (B, H, T) f32 is scratch.
void attention_backward(Stream& stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                        Matrix dout, const Qkv& qkv, Matrix out, const float* log_sum_exp);

// Keys and values of one sequence: row p is of the token at position p. All rows must be finite
// numbers from the beginning (zeros, say), since those to come take part, times 0.
struct KvCache {
  Matrix k;  // (P, Hkv·D)
  Matrix v;  // (P, Hkv·D)
};

// Attention of T new tokens, at positions past … past+T-1 <= P-1, to themselves and all before
// them; shape.batch is 1, documents are not supported. Their k and v are put into the cache first.
// The same sums over the same tiles as attention_forward() of the whole sequence, up to the order
// within a matmul, which depends on T; on a cuda device those of kernels of its own.
void attention_with_cache(Stream& stream, const AttentionShape& shape,
                          const AttentionOptions& options, Matrix out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past);

}  // namespace strata::ops
