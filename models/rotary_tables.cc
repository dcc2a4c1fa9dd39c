#include "models/rotary_tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/base/error.h"

namespace strata::models {
namespace {

// theta^(2 i / head_dim).
std::vector<float> base_powers(const RotaryConfig& config) {
  const auto theta = static_cast<double>(static_cast<float>(config.theta));
  const auto head_dim = static_cast<float>(config.head_dim);
  std::vector<float> powers;
  for (std::int64_t i = 0; i < config.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / head_dim;
    powers.push_back(static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return powers;
}

RotaryFrequencies plain(const RotaryConfig& config) {
  RotaryFrequencies result{base_powers(config)};
  for (float& value : result.radians_per_position) value = 1.0f / value;
  return result;
}

RotaryFrequencies frequencies(const RotaryConfig& config, const PlainRotary&) {
  return plain(config);
}

RotaryFrequencies frequencies(const RotaryConfig& config, const LinearRotary& scaling) {
  RotaryFrequencies result = plain(config);
  for (float& value : result.radians_per_position) value /= static_cast<float>(scaling.factor);
  return result;
}

RotaryFrequencies frequencies(const RotaryConfig& config, const Llama3Rotary& scaling) {
  STRATA_CHECK(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
                   scaling.original_context > 0,
               "llama3 rotary scaling of {} positions between {} and {}", scaling.original_context,
               scaling.low_freq_factor, scaling.high_freq_factor);
  const auto context = static_cast<double>(scaling.original_context);
  const auto longest_mixed = static_cast<float>(context / scaling.low_freq_factor);
  const auto shortest_mixed = static_cast<float>(context / scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto range = static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  RotaryFrequencies result = plain(config);
  for (float& value : result.radians_per_position) {
    // PyTorch divides a number by a tensor as reciprocal times number.
    const float wavelength = 1.0f / value * static_cast<float>(2 * std::numbers::pi);
    if (wavelength > longest_mixed) {
      value /= factor;
    } else if (wavelength >= shortest_mixed) {
      const float smooth = (1.0f / wavelength * static_cast<float>(context) - low) / range;
      value = (1.0f - smooth) * value / factor + smooth * value;
    }
  }
  return result;
}

double yarn_scale(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

double attention_factor(const YarnRotary& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  const double mscale = scaling.mscale.value_or(0);
  const double mscale_all_dim = scaling.mscale_all_dim.value_or(0);
  if (mscale != 0 && mscale_all_dim != 0) {
    return yarn_scale(scaling.factor, mscale) / yarn_scale(scaling.factor, mscale_all_dim);
  }
  return yarn_scale(scaling.factor, 1);
}

// The index, a real number, of the frequency that turns `rotations` times in the original context.
double index_of(const RotaryConfig& config, const YarnRotary& scaling, double rotations) {
  const double turns =
      static_cast<double>(scaling.original_context) / (rotations * 2 * std::numbers::pi);
  return static_cast<double>(config.head_dim) * std::log(turns) / (2 * std::log(config.theta));
}

RotaryFrequencies frequencies(const RotaryConfig& config, const YarnRotary& scaling) {
  STRATA_CHECK(scaling.original_context > 0 && scaling.beta_fast > 0 && scaling.beta_slow > 0,
               "yarn rotary scaling of {} positions, beta {} and {}", scaling.original_context,
               scaling.beta_fast, scaling.beta_slow);
  double low = index_of(config, scaling, scaling.beta_fast);
  double high = index_of(config, scaling, scaling.beta_slow);
  if (scaling.range == YarnRotary::Range::whole_indices) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_dim - 1));
  if (low == high) high += 0.001;  // as theirs, a step instead of a division by 0

  const auto factor = static_cast<float>(scaling.factor);
  RotaryFrequencies result{base_powers(config), static_cast<float>(attention_factor(scaling))};
  for (std::size_t i = 0; i < result.radians_per_position.size(); ++i) {
    float& value = result.radians_per_position[i];
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1.0f - ramp;
    value = 1.0f / (factor * value) * (1.0f - kept) + 1.0f / value * kept;
  }
  return result;
}

}  // namespace

RotaryFrequencies rotary_frequencies(const RotaryConfig& config) {
  STRATA_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0 && config.theta > 1,
               "rotary embedding of heads of {}, theta {}", config.head_dim, config.theta);
  return std::visit([&](const auto& scaling) { return frequencies(config, scaling); },
                    config.scaling);
}

void fill_rotary_tables(const RotaryConfig& config, std::span<float> cos, std::span<float> sin) {
  const auto [frequencies, factor] = rotary_frequencies(config);
  STRATA_CHECK(cos.size() == sin.size() && cos.size() % frequencies.size() == 0,
               "rotary tables of {} and {} elements for heads of {}", cos.size(), sin.size(),
               config.head_dim);
  for (std::size_t i = 0; i < cos.size(); ++i) {
    const auto position = static_cast<float>(i / frequencies.size());
    const double angle = position * frequencies[i % frequencies.size()];
    cos[i] = static_cast<float>(std::cos(angle)) * factor;
    sin[i] = static_cast<float>(std::sin(angle)) * factor;
  }
}

}  // namespace strata::models
