// The units of a model, in forward order, and where the tensors of each stand:
//
//   gpt2:    wte.0 … wte.K, wpe, h.0 … h.L-1, ln_f
//   others:  embed_tokens.0 … embed_tokens.K, layers.0 … layers.L-1, norm, and with an untied head
//            lm_head.0 … lm_head.K
//
// Tensors have Hugging Face's names without "transformer." or "model." (hf_tensors.h). Weights of
// linear layers are (out, in) row-major as in torch.nn.Linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/model_config.h"
#include "models/unit_spec.h"

namespace strata::models {

std::vector<UnitSpec> model_units(const ModelConfig& config);

// Vocabulary rows of every unit of a token table or head but the last, which may be shorter: a
// multiple of 64.
std::int64_t table_chunk_rows(const ModelConfig& config);

// One tensor, or several that lie without a gap between them and are used as one: their rows (of
// vectors: their elements) follow one another. count 0: the model has none.
struct TensorRun {
  std::size_t first = 0;
  std::size_t count = 0;
  bool present() const { return count > 0; }
};

// Where the tensors of a block stand in its unit.
struct BlockTensors {
  TensorRun norm1_weight;  // (C)
  TensorRun norm1_bias;
  TensorRun qkv_weight;  // ((H + 2 Hkv)·D, C)
  TensorRun qkv_bias;
  TensorRun q_norm;                // (D)
  TensorRun k_norm;                // (D)
  TensorRun attention_out_weight;  // (C, H·D)
  TensorRun attention_out_bias;
  TensorRun norm2_weight;
  TensorRun norm2_bias;
  TensorRun mlp_in_weight;  // gelu: (F, C); swiglu: gate, then up, (2F, C)
  TensorRun mlp_in_bias;
  TensorRun mlp_out_weight;  // (C, F)
  TensorRun mlp_out_bias;
};
struct BlockUnit {
  UnitSpec spec;
  BlockTensors tensors;
};
// The unit of block `layer`.
BlockUnit block_unit(const ModelConfig& config, std::int64_t layer);

// The unit of the final norm: its weight is tensor 0, a LayerNorm's bias tensor 1.
UnitSpec final_norm_unit(const ModelConfig& config);

}  // namespace strata::models
