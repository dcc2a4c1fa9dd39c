// The 8-bit dynamic map of Dettmers et al. 2022 (8-bit Optimizers via Block-wise Quantization):
// numbers in [0, 1], seven decades from 1e-7 to 1, each cut into twice as many equal cells as the
// one below, whose middles are the levels; besides them 0 and 1. The signed map has them on both
// sides of zero, without -1.
//
// A number is stored as its nearest level: halfway, as the lower one.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace strata::optim {

// Levels 0 … kLevels - 1 in rising order.
template <int kLevels>
struct DynamicMap {
  // Numbers whose bits agree above the lowest 16 have one of two neighbouring levels.
  static constexpr int kBinShift = 16;
  static constexpr std::uint32_t kOneBits = 0x3F800000u;
  static constexpr std::uint32_t kFirstBinBits = 0x34000000u;  // 2^-23 < 1e-7 * 1.25: level 0
  static constexpr std::size_t kBins = ((kOneBits - kFirstBinBits) >> kBinShift) + 1;

  std::array<float, kLevels> level{};
  std::array<float, kLevels> upper_bound{};        // the largest number of the level
  std::array<std::int32_t, kBins> lowest_level{};  // of the numbers of a bin

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
    for (n = 0; n + 1 < kLevels; ++n) {
      upper_bound[n] = static_cast<float>((double{level[n]} + double{level[n + 1]}) / 2);
    }
    upper_bound[kLevels - 1] = 1;
    n = 0;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const auto bits = kFirstBinBits + (static_cast<std::uint32_t>(bin) << kBinShift);
      while (std::bit_cast<float>(bits) > upper_bound[n]) ++n;
      lowest_level[bin] = n;
    }
  }

  // Of a number in [0, 1] given by its bits; of 1 for greater ones, infinity and NaN.
  std::int32_t nearest(std::uint32_t bits) const {
    const std::uint32_t clamped = bits < kFirstBinBits ? kFirstBinBits
                                  : bits > kOneBits    ? kOneBits
                                                       : bits;
    const std::int32_t lower =
        lowest_level[static_cast<std::int32_t>((clamped - kFirstBinBits) >> kBinShift)];
    return lower + (std::bit_cast<float>(clamped) > upper_bound[lower] ? 1 : 0);
  }
};

inline constexpr int kSignedLevels = 129;  // of magnitudes; the last for positive numbers only
inline constexpr int kUnsignedLevels = 256;
inline constexpr DynamicMap<kSignedLevels> kSignedMap(64);
inline constexpr DynamicMap<kUnsignedLevels> kUnsignedMap(128);

}  // namespace strata::optim
