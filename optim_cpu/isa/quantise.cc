// Moments in int8. Codes (docs/optimizer.md): of an unsigned number its level; of a signed one plus
// or minus its level in two's complement, where -128 stands for level 128, the number 1. A block of
// zero bytes with scale 0 is a block of zeros.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "optim_cpu/dynamic_map.h"
#include "optim_cpu/isa/functions.h"

namespace strata::optim::STRATA_ISA {
namespace {

constexpr std::array<float, 256> signed_values() {
  std::array<float, 256> values{};
  for (int n = 0; n < kSignedLevels; ++n) {
    values[static_cast<std::uint8_t>(n)] = kSignedMap.level[n];
    if (n + 1 < kSignedLevels) values[static_cast<std::uint8_t>(-n)] = -kSignedMap.level[n];
  }
  values[0] = 0;
  return values;
}

constexpr std::array<float, 256> kSignedValues = signed_values();

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

void dequantise(float* values, const std::uint8_t* codes, const std::array<float, 256>& map,
                float scale, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) values[i] = map[codes[i]] * scale;
}

void dequantise_signed(float* values, const std::uint8_t* codes, float scale,
                       std::int64_t elements) {
  dequantise(values, codes, kSignedValues, scale, elements);
}

void dequantise_unsigned(float* values, const std::uint8_t* codes, float scale,
                         std::int64_t elements) {
  dequantise(values, codes, kUnsignedMap.level, scale, elements);
}

// The largest magnitude: NaN above infinity above every finite value.
float scale_of(const float* values, std::int64_t elements) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    largest = std::max(largest, magnitude_bits(values[i]));
  }
  return std::bit_cast<float>(largest);
}

float quantise_signed(std::uint8_t* codes, const float* values, std::int64_t elements) {
  const float scale = scale_of(values, elements);
  const float divisor = scale == 0 ? 1 : scale;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int32_t level = kSignedMap.nearest(magnitude_bits(values[i] / divisor));
    codes[i] = static_cast<std::uint8_t>(values[i] < 0 ? -std::min(level, 127) : level);
  }
  return scale;
}

// A number above zero never gets level 0: a second moment of zero beside a first moment that is not
// would divide it by epsilon alone.
float quantise_unsigned(std::uint8_t* codes, const float* values, std::int64_t elements) {
  const float scale = scale_of(values, elements);
  const float divisor = scale == 0 ? 1 : scale;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int32_t level = kUnsignedMap.nearest(magnitude_bits(values[i] / divisor));
    codes[i] = static_cast<std::uint8_t>(std::max(level, values[i] > 0 ? 1 : 0));
  }
  return scale;
}

}  // namespace

const QuantisationFunctions kQuantisationFunctions = {dequantise_signed, dequantise_unsigned,
                                                      quantise_signed, quantise_unsigned};

}  // namespace strata::optim::STRATA_ISA
