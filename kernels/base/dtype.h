// Element types, bf16 conversion and the split master weight.
//
// Two roundings to bf16 exist and are never mixed:
//  - activations and gradients: round to nearest, ties to even (what hardware and PyTorch do);
//  - working weights: the upper half of a split master, ties away from zero (split_master).
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

enum class Dtype : std::uint8_t { f32, bf16 };

constexpr std::int64_t bytes_of(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }
constexpr const char* name_of(Dtype dtype) { return dtype == Dtype::f32 ? "f32" : "bf16"; }

// How the optimizer's moments are stored. int8: one code per element and an f32 scale for each 256
// consecutive elements (docs/optimizer.md).
enum class MomentFormat : std::uint8_t { f32, bf16, int8 };
inline constexpr std::int64_t kScaleElements = 256;  // that share one scale in int8

constexpr const char* name_of(MomentFormat format) {
  return format == MomentFormat::f32 ? "f32" : format == MomentFormat::bf16 ? "bf16" : "int8";
}

// The upper 16 bits of an f32.
struct bf16 {
  std::uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline bf16 to_bf16_nearest_even(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

// An f32 master stored as the bf16 working weight and a 16-bit remainder:
//   w = (bits(master) + 0x8000) >> 16,  rem = int16(bits(master) & 0xFFFF),
//   bits(master) = (w << 16) + rem  (mod 2^32), exactly.
// Domain: |master| below the number of kSplitMasterBoundBits, where w becomes infinite.
struct SplitMaster {
  bf16 weight;
  std::int16_t remainder;
};

inline constexpr std::uint32_t kSplitMasterBoundBits = 0x7F7F8000u;

inline SplitMaster split_master(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  return {{static_cast<std::uint16_t>((bits + 0x8000u) >> 16)},
          static_cast<std::int16_t>(static_cast<std::uint16_t>(bits & 0xFFFFu))};
}

inline float join_master(bf16 weight, std::int16_t remainder) {
  return std::bit_cast<float>((std::uint32_t{weight.bits} << 16) +
                              static_cast<std::uint32_t>(std::int32_t{remainder}));
}

}  // namespace strata
