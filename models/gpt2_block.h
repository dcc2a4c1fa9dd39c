// One GPT-2 decoder block on resident memory: forward, and backward from saved activations.
//
//   x ─ ln_1 ─ c_attn ─ attention ─ c_proj ─(+x)─ r ─ ln_2 ─ c_fc ─ gelu ─ c_proj ─(+r)─ out
//
// Knows nothing of tiers or ranks: weights and gradients are flat units laid out by gpt2_units().
// All memory is device memory; everything is enqueued on the stream, nothing allocates.
// B and T may be smaller than the limits for a last, partial micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/view.h"
#include "models/gpt2_config.h"

namespace strata::models {

// Shapes of one call.
struct Batch {
  std::int64_t sequences = 0;  // B
  std::int64_t tokens = 0;     // T
  std::int64_t rows() const { return sequences * tokens; }
};

class Gpt2Block {
 public:
  // `dtype`: of weights and activations. `limits`: the largest B and T.
  Gpt2Block(const Gpt2Config& config, Dtype dtype, Batch limits);

  // Bytes of what forward() leaves for backward(), for the largest batch.
  std::int64_t saved_bytes() const { return saved_bytes_; }
  // Bytes of scratch for backward(), for the largest batch.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // weights: the unit's flat buffer. x, out (B·T, C): out may not be x.
  void forward(Stream& stream, Batch batch, const std::byte* weights, const void* x,
               std::byte* saved, void* out) const;

  // gradients: the unit's flat buffer, f32; Into::overwrite also zeroes the gaps between tensors.
  // What forward() saves, again, without computing `out`: activation checkpointing.
  void recompute(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                 std::byte* saved) const;

  // saved: of a forward() with the same batch, weights and x. dout (B·T, C) is read; dx (B·T, C)
  // may be x itself.
  void backward(Stream& stream, Batch batch, const std::byte* weights, float* gradients,
                ops::Into into, const void* x, const std::byte* saved, const void* dout, void* dx,
                std::byte* workspace) const;

  // The linear layers, for choosing their arithmetic.
  std::vector<ops::MatmulShape> matmul_shapes() const;
  // Multiply-adds × 2 of one forward for a batch, attention (its causal half) included.
  double forward_flops(Batch batch) const;

 private:
  Gpt2Config config_;
  Dtype dtype_;
  Batch limits_;
  UnitSpec unit_;
  std::int64_t saved_bytes_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace strata::models
