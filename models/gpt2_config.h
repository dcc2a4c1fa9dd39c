// The GPT-2 architecture (Radford et al. 2019): pre-norm blocks, learned positions, tied head.
//
// Tensors have Hugging Face's names. Weights of linear layers are (out, in) row-major as in
// torch.nn.Linear; Hugging Face's GPT-2 checkpoints keep them as Conv1D, which is (in, out):
// whoever imports or exports one transposes c_attn, c_proj and c_fc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/unit_spec.h"

namespace strata::models {

struct Gpt2Config {
  std::string name;             // as the model was asked for: preset, spec or folder
  std::int64_t layers = 0;      // L
  std::int64_t hidden = 0;      // C
  std::int64_t heads = 0;       // H
  std::int64_t context = 0;     // T max
  std::int64_t vocabulary = 0;  // V
  std::int64_t head_dim() const { return hidden / heads; }
  std::int64_t parameters() const;  // without gaps
};

inline constexpr std::int64_t kByteVocabulary = 256;

// The largest values of a shape.
inline constexpr std::int64_t kLayersMax = 4096;
// So that a table chunk of 64 rows stays within kTableChunkElements.
inline constexpr std::int64_t kHiddenMax = kTableChunkElements / kTensorAlignmentElements;
inline constexpr std::int64_t kHeadsMax = 1024;
inline constexpr std::int64_t kContextMax = 1 << 20;
inline constexpr std::int64_t kVocabularyMax = 1 << 24;

// A preset (gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1.5b) or a spec
// "gpt2:layers=6,hidden=384,heads=6,context=256[,vocab=256]" (vocab defaults to bytes, 256).
// Throws ConfigError: unknown name or key (with the nearest known one), missing or repeated key,
// a value that is not a positive number, hidden not divisible by heads, sizes beyond limits.
Gpt2Config parse_gpt2(std::string_view text);

std::vector<std::string> gpt2_presets();
// Whether parse_gpt2 knows it, or would say what is wrong with it: a preset's name, or a spec.
bool is_gpt2_name(std::string_view text);

// All units, in forward order: wte.0 … wte.K, wpe, h.0 … h.L-1, ln_f.
std::vector<UnitSpec> gpt2_units(const Gpt2Config& config);

// Vocabulary rows of every wte unit but the last, which may be shorter: a multiple of 64.
std::int64_t gpt2_chunk_rows(const Gpt2Config& config);

// The unit h.`layer`, and where its tensors stand in UnitSpec::tensors.
UnitSpec gpt2_block_unit(const Gpt2Config& config, std::int64_t layer);
enum BlockTensor : std::size_t {
  kLn1Weight,
  kLn1Bias,
  kAttentionInWeight,  // c_attn (3C, C): q, k, v
  kAttentionInBias,
  kAttentionOutWeight,  // attn.c_proj (C, C)
  kAttentionOutBias,
  kLn2Weight,
  kLn2Bias,
  kMlpInWeight,  // c_fc (4C, C)
  kMlpInBias,
  kMlpOutWeight,  // mlp.c_proj (C, 4C)
  kMlpOutBias,
};

// The unit ln_f, likewise.
UnitSpec gpt2_final_norm_unit(const Gpt2Config& config);
enum FinalNormTensor : std::size_t { kLnFWeight, kLnFBias };

}  // namespace strata::models
