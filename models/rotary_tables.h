// The angles of rotary position embeddings, as transformers' modeling_rope_utils.py computes them:
// plain (Su et al. 2021), linear position interpolation (Chen et al. 2023), Llama 3.1's scaling,
// and YaRN (Peng et al. 2023). Pure functions of the model's configuration.
//
// Every step is in f32 where theirs is, in their order, since models were trained with those
// angles: at position p the rounding of p · frequency alone is p · 2^-24. Powers, sines and cosines
// are rounded correctly here, so that tables may differ from theirs, which depend on the machine,
// by an ulp of the frequency and of the result.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace strata::models {

struct PlainRotary {};

// All frequencies divided by `factor`.
struct LinearRotary {
  double factor = 1;
};

// Wavelengths above original_context / low_freq_factor are multiplied by `factor`, those below
// original_context / high_freq_factor are kept, those between go smoothly from one to the other.
struct Llama3Rotary {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_context = 8192;  // original_max_position_embeddings
};

// Frequencies that turn more than beta_fast times in the original context are kept, those that turn
// less than beta_slow times are divided by `factor`, those between are mixed, by their index.
struct YarnRotary {
  enum class Range : std::uint8_t { whole_indices, exact };  // "truncate": true, false

  double factor = 1;
  std::int64_t original_context = 0;  // original_max_position_embeddings
  double beta_fast = 32;
  double beta_slow = 1;
  Range range = Range::whole_indices;
  // Without attention_factor it follows from the other two, which only count together, or else
  // from `factor`: 0.1 ln(factor) + 1.
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
};

using RotaryScaling = std::variant<PlainRotary, LinearRotary, Llama3Rotary, YarnRotary>;

struct RotaryConfig {
  std::int64_t head_dim = 0;  // even
  double theta = 10000;       // rope_theta, > 1
  RotaryScaling scaling = PlainRotary{};
};

struct RotaryFrequencies {
  std::vector<float> radians_per_position;  // (head_dim / 2), "inv_freq"
  float attention_factor = 1;               // multiplies cos and sin
};

RotaryFrequencies rotary_frequencies(const RotaryConfig& config);

// cos, sin (P, head_dim / 2), for ops::RotaryTables: of positions 0 … P-1, P from the spans'
// length.
void fill_rotary_tables(const RotaryConfig& config, std::span<float> cos, std::span<float> sin);

}  // namespace strata::models
