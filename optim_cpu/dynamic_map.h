// The 8-bit dynamic map of Dettmers et al. 2022 (8-bit Optimizers via Block-wise Quantization):
// numbers in [0, 1], seven decades from 1e-7 to 1, each cut into twice as many equal cells as the
// one below, whose middles are the levels; besides them 0 and 1. The signed map has them on both
// sides of zero, without -1.
//
// A number is stored as its nearest level: halfway, as the lower one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace strata::optim {

// Levels 0 … kLevels - 1 in rising order.
//
// nearest() looks up the upper 16 bits of a number, its bin, which has one of two neighbouring
// levels; the lower 16 bits decide between them.
template <int kLevels>
struct DynamicMap {
  static constexpr std::uint32_t kOneBits = 0x3F800000u;
  static constexpr std::uint32_t kFirstBinBits = 0x34000000u;  // 2^-23: below, all have level 0
  static constexpr std::size_t kBins = ((kOneBits - kFirstBinBits) >> 16) + 1;

  std::array<float, kLevels> level{};
  // Upper half: the largest lower 16 bits of a number of the bin's lower level. Lower half: that
  // level.
  std::array<std::uint32_t, kBins> bins{};

  // cells_in_last_decade: 64 (signed) or 128 (unsigned).
  constexpr explicit DynamicMap(int cells_in_last_decade) {
    int n = 1;
    double decade = 1e-6;
    for (int cells = cells_in_last_decade / 64; cells <= cells_in_last_decade; cells *= 2) {
      for (int j = 0; j < cells; ++j, ++n) {
        level[n] = static_cast<float>(decade * (0.1 + 0.9 * (j + 0.5) / cells));
      }
      decade *= 10;
    }
    level[kLevels - 1] = 1;
    std::uint32_t lower = 0;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const std::uint32_t first_bits = kFirstBinBits + (static_cast<std::uint32_t>(bin) << 16);
      while (last_bits_of(lower) < first_bits) ++lower;
      const std::uint32_t last = last_bits_of(lower) - first_bits;
      bins[bin] = (last < 0xFFFFu ? last : 0xFFFFu) << 16 | lower;
    }
  }

  // Of a number in [0, 1] given by its bits; of 1 for greater ones, infinity and NaN.
  std::int32_t nearest(std::uint32_t bits) const {
    const std::uint32_t clamped = std::clamp(bits, kFirstBinBits, kOneBits);
    const std::uint32_t bin = bins[static_cast<std::int32_t>((clamped - kFirstBinBits) >> 16)];
    return static_cast<std::int32_t>((bin & 0xFFFFu) + ((clamped & 0xFFFFu) > bin >> 16 ? 1 : 0));
  }

 private:
  // Of the largest number whose nearest level is n.
  constexpr std::uint32_t last_bits_of(std::uint32_t n) const {
    if (n + 1 == kLevels) return kOneBits;
    return std::bit_cast<std::uint32_t>(
        static_cast<float>((double{level[n]} + double{level[n + 1]}) / 2));
  }
};

inline constexpr int kSignedLevels = 129;  // of magnitudes; the last for positive numbers only
inline constexpr int kUnsignedLevels = 256;
inline constexpr DynamicMap<kSignedLevels> kSignedMap(64);
inline constexpr DynamicMap<kUnsignedLevels> kUnsignedMap(128);

}  // namespace strata::optim
