// ModelConfig: the decoder-only transformers that can be trained, as one configured block:
//
//   tokens ─ embedding (+ learned positions) ─ L blocks ─ norm ─ head over the vocabulary
//   block:  x ─ norm ─ q, k, v (─ QK-norm) (─ rotary) ─ attention ─ out ─(+)─ norm ─ MLP ─(+)
//
//   family    norm       positions  q, k, v biases  other biases  QK-norm  MLP     head
//   gpt2      LayerNorm  learned    yes             yes           no       GELU    tied
//   llama     RMSNorm    rotary     no              no            no       SwiGLU  tied or its own
//   mistral   RMSNorm    rotary     no              no            no       SwiGLU  tied or its own
//   qwen2     RMSNorm    rotary     yes             no            no       SwiGLU  tied or its own
//   qwen3     RMSNorm    rotary     no              no            yes      SwiGLU  tied or its own
//
// Grouped-query attention, a sliding window and rotary scaling are numbers of the configuration.
// Presets and specs are in presets.h, a folder's config.json in hf_config.h. Not supported:
// encoders, mixtures of experts, dropout, soft-capped logits, attention biases other than these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/rotary_tables.h"
#include "models/unit_spec.h"

namespace strata::models {

enum class Family : std::uint8_t { gpt2, llama, mistral, qwen2, qwen3 };
const char* name_of(Family family);  // "gpt2", as config.json's model_type

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class MlpKind : std::uint8_t { gelu, swiglu };
enum class Biases : std::uint8_t { none, qkv, all };
enum class QkNorm : std::uint8_t { none, per_head };
enum class HeadKind : std::uint8_t { tied, untied };

struct ModelConfig {
  std::string name;  // as the model was asked for: preset, spec or folder
  Family family = Family::gpt2;
  std::int64_t layers = 0;        // L
  std::int64_t hidden = 0;        // C
  std::int64_t heads = 0;         // H
  std::int64_t kv_heads = 0;      // Hkv, divides H
  std::int64_t head_dim = 0;      // D; H·D need not be C
  std::int64_t intermediate = 0;  // F, the MLP's width
  std::int64_t context = 0;       // T max
  std::int64_t vocabulary = 0;    // V
  NormKind norm = NormKind::layer_norm;
  double norm_epsilon = 1e-5;  // of layer_norm always 1e-5
  MlpKind mlp = MlpKind::gelu;
  Biases biases = Biases::all;
  QkNorm qk_norm = QkNorm::none;
  HeadKind head = HeadKind::tied;
  std::int64_t window = 0;             // tokens that a query sees; 0: all before it
  std::optional<RotaryConfig> rotary;  // nothing: learned positions, a table of (T max, C)

  std::int64_t channels() const { return heads * head_dim; }  // of q, and of attention's output
  std::int64_t kv_channels() const { return kv_heads * head_dim; }  // of k, and of v
  bool learned_positions() const { return !rotary.has_value(); }
  std::int64_t parameters() const;  // without gaps
};

// What the family's row above says (families.h); sizes and numbers are left alone.
void apply_family(ModelConfig& config, Family family);

// Of a config that has its family, its other sizes and at least one head: makes of a 0 what follows
// from those (kv_heads: heads; head_dim: hidden / heads; intermediate: 4 hidden, of SwiGLU the
// multiple of 64 next above 8/3 hidden), and returns what sizes must not be, a sentence each.
std::vector<std::string> resolve_shape(ModelConfig& config);

inline constexpr std::int64_t kByteVocabulary = 256;

// The largest values of a shape.
inline constexpr std::int64_t kLayersMax = 4096;
// So that a table chunk of 64 rows stays within kTableChunkElements.
inline constexpr std::int64_t kHiddenMax = kTableChunkElements / kTensorAlignmentElements;
inline constexpr std::int64_t kIntermediateMax = 1 << 20;
inline constexpr std::int64_t kHeadsMax = 1024;
inline constexpr std::int64_t kHeadDimMax = 1024;
inline constexpr std::int64_t kContextMax = 1 << 20;
inline constexpr std::int64_t kVocabularyMax = 1 << 24;

}  // namespace strata::models
