// The split master: exact for every low half under every exponent, through dtype.h and through an
// update that changes nothing, in every instruction set.
#include <gtest/gtest.h>

#include <bit>

#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

constexpr std::size_t kLowHalves = 65536;

// Upper halves: every exponent and both signs, with mantissas at both ends and in the middle.
std::vector<std::uint32_t> upper_halves() {
  std::vector<std::uint32_t> uppers;
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent) {
    for (const std::uint32_t mantissa : {0x00u, 0x01u, 0x2Bu, 0x7Fu}) {
      uppers.push_back(sign_and_exponent << 7 | mantissa);
    }
  }
  return uppers;
}

bool in_domain(std::uint32_t bits) { return (bits & 0x7FFFFFFFu) < 0x7F7F8000u; }

TEST(SplitMaster, JoinsExactlyAndRoundsToNearest) {
  for (const std::uint32_t upper : upper_halves()) {
    for (std::uint32_t low = 0; low < kLowHalves; ++low) {
      const std::uint32_t bits = upper << 16 | low;
      const float master = std::bit_cast<float>(bits);
      if (!in_domain(bits)) continue;
      const SplitMaster split = split_master(master);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(join_master(split.weight, split.remainder)), bits);
      // Nearest, ties away from zero: away is the next upper half, for both signs.
      ASSERT_EQ(split.weight.bits, low < 0x8000u ? upper : upper + 1) << std::hex << bits;
    }
  }
}

TEST(SplitMaster, DomainEndsBeforeTheWorkingWeightIsInfinite) {
  const float last = std::bit_cast<float>(0x7F7F7FFFu);
  EXPECT_EQ(split_master(last).weight.bits, 0x7F7F);
  EXPECT_EQ(split_master(-last).weight.bits, 0xFF7F);
  const float first_outside = std::bit_cast<float>(kSplitMasterBoundBits);
  EXPECT_EQ(kSplitMasterBoundBits, 0x7F7F8000u);
  EXPECT_EQ(split_master(first_outside).weight.bits, 0x7F80);
}

TEST(SplitMaster, AnUpdateOfNothingKeepsEveryBit) {
  std::vector<bf16> weight(kLowHalves);
  std::vector<std::int16_t> remainder(kLowHalves);
  std::vector<float> moment1(kLowHalves), moment2(kLowHalves);
  const std::vector<float> gradient(kLowHalves);
  State state;
  state.weight = weight.data();
  state.remainder = remainder.data();
  state.moment1.values = moment1.data();
  state.moment2.values = moment2.data();
  state.gradient = gradient.data();
  state.elements = static_cast<std::int64_t>(kLowHalves);
  for (const Isa isa : supported_isas()) {
    // The same loop over dtype.h, but its calls of fma would take seconds.
    if (isa == Isa::scalar) continue;
    for (std::uint32_t upper = 0; upper < kLowHalves; upper += 0x3Bu) {  // odd: mantissas vary
      if (!in_domain(upper << 16 | 0xFFFFu)) continue;
      for (std::uint32_t low = 0; low < kLowHalves; ++low) {
        const SplitMaster split = split_master(std::bit_cast<float>(upper << 16 | low));
        weight[low] = split.weight;
        remainder[low] = split.remainder;
      }
      const std::vector<bf16> weight_before = weight;
      const std::vector<std::int16_t> remainder_before = remainder;
      ASSERT_TRUE(update({}, {0, 0}, state, isa));
      ASSERT_EQ(weight, weight_before) << name_of(isa) << std::hex << upper;
      ASSERT_EQ(remainder, remainder_before) << name_of(isa) << std::hex << upper;
    }
  }
}

}  // namespace
}  // namespace strata::optim
