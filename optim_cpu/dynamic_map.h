// The 8-bit dynamic map of Dettmers et al. 2022 (8-bit Optimizers via Block-wise Quantization):
// numbers in [0, 1], seven decades from 1e-7 to 1, each cut into twice as many equal cells as the
// one below, whose middles are the levels; besides them 0 and 1. The signed map has them on both
// sides of zero, without -1.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace strata::optim {

// Levels 0 … kLevels - 1 in rising order.
//
// place() interpolates between them along straight lines, which become flatter from one to the next
// as levels lie farther apart: the lowest of all lines is the one that counts. Only the last, from
// the last level but one to 1, is steeper.
template <int kLevels>
struct DynamicMap {
  static constexpr int kPlaceBits = 15;

  // cells_in_last_decade: 64 (signed) or 128 (unsigned).
  constexpr explicit DynamicMap(int cells_in_last_decade) {
    std::array<double, kLevels> exact{};
    int n = 1;
    double decade = 1e-6;
    for (int cells = cells_in_last_decade / 64; cells <= cells_in_last_decade; cells *= 2) {
      for (int j = 0; j < cells; ++j, ++n) exact[n] = decade * (0.1 + 0.9 * (j + 0.5) / cells);
      decade *= 10;
    }
    exact[kLevels - 1] = 1;
    for (n = 0; n < kLevels; ++n) level[n] = static_cast<float>(exact[n]);
    std::size_t line = 0;
    double slope = 0;  // of the line before
    for (n = 0; n + 2 < kLevels; ++n) {
      const double next = 1 / (exact[n + 1] - exact[n]);
      if (n == 0 || next < slope * 0.999) lines[line++] = Line(n, exact[n], next);
      slope = next;
    }
    for (; line < kLines; ++line) lines[line] = lines[line - 1];
    last_line = Line(n, exact[n], 1 / (1 - exact[n]));
  }

  // Of a number in [0, 1]: 2^kPlaceBits times (the level at or below it + the share of the way to
  // the next), rounded to nearest. Anything for NaN.
  constexpr std::uint32_t place(float x) const {
    std::int32_t lowest = lines[0].bits_at(x);
    for (std::size_t line = 1; line < kLines; ++line) {
      lowest = std::min(lowest, lines[line].bits_at(x));
    }
    // The sum's last bit is worth one.
    const float sum = std::bit_cast<float>(std::max(lowest, last_line.bits_at(x))) + 0x1p23f;
    return std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0x1p23f);
  }

  // Through (x, n).
  struct Line {
    constexpr Line() = default;
    constexpr Line(int n, double x, double rise)
        : offset(static_cast<float>((n - x * rise) * (1 << kPlaceBits))),
          slope(static_cast<float>(rise * (1 << kPlaceBits))) {}
    // In the order of the numbers, those below zero before all others.
    constexpr std::int32_t bits_at(float x) const {
      return std::bit_cast<std::int32_t>(offset + slope * x);
    }

    float offset = 0;
    float slope = 0;
  };
  static constexpr std::size_t kLines = 14;  // but for the last

  std::array<float, kLevels> level{};
  std::array<Line, kLines> lines{};
  Line last_line;
};

inline constexpr int kSignedLevels = 129;  // of magnitudes; the last for positive numbers only
inline constexpr int kUnsignedLevels = 256;
inline constexpr DynamicMap<kSignedLevels> kSignedMap(64);
inline constexpr DynamicMap<kUnsignedLevels> kUnsignedMap(128);

}  // namespace strata::optim
