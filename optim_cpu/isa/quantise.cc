// Moments in int8. Codes (docs/optimizer.md): of an unsigned number its level; of a signed one plus
// or minus its level in two's complement, where -128 stands for level 128, the number 1. A block of
// zero bytes with scale 0 is a block of zeros.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "optim_cpu/dynamic_map.h"
#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa/state_access.h"

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

// No number of a block lies above its scale, so none gets a level above 1.
static_assert(kSignedMap.place(1) == (kSignedLevels - 1) << kSignedMap.kPlaceBits);
static_assert(kUnsignedMap.place(1) == (kUnsignedLevels - 1) << kUnsignedMap.kPlaceBits);

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

// The level at or below x, or the next, whose chance is the share of the way to it. `random`: 16
// bits.
template <typename Map>
std::int32_t level_of(const Map& map, float x, std::uint32_t random) {
  const std::uint32_t place = map.place(x) + (random >> (16 - Map::kPlaceBits));
  return static_cast<std::int32_t>(place >> Map::kPlaceBits);
}

float quantise_signed(std::uint8_t* codes, const float* values, const RoundingKey& key,
                      std::uint32_t index, std::int64_t elements) {
  const float scale = scale_of(values, elements);
  const float divisor = scale == 0 ? 1 : scale;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint32_t random = random_bits(key, index + static_cast<std::uint32_t>(i)) & 0xFFFFu;
    const std::int32_t level = level_of(kSignedMap, std::abs(values[i]) / divisor, random);
    codes[i] = static_cast<std::uint8_t>(values[i] < 0 ? -std::min(level, 127) : level);
  }
  return scale;
}

// A number above zero never gets level 0: a second moment of zero beside a first moment that is not
// would divide it by epsilon alone.
float quantise_unsigned(std::uint8_t* codes, const float* values, const RoundingKey& key,
                        std::uint32_t index, std::int64_t elements) {
  const float scale = scale_of(values, elements);
  const float divisor = scale == 0 ? 1 : scale;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint32_t random = random_bits(key, index + static_cast<std::uint32_t>(i)) >> 16;
    const std::int32_t level = level_of(kUnsignedMap, std::abs(values[i]) / divisor, random);
    codes[i] = static_cast<std::uint8_t>(std::max(level, values[i] > 0 ? 1 : 0));
  }
  return scale;
}

}  // namespace

const QuantisationFunctions kQuantisationFunctions = {dequantise_signed, dequantise_unsigned,
                                                      quantise_signed, quantise_unsigned};

}  // namespace strata::optim::STRATA_ISA
