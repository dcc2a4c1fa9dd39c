#include "engine/data/sample_order.h"

#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"

namespace strata::engine {
namespace {

constexpr int kRounds = 8;  // 4 suffice for wide halves (Luby & Rackoff 1988); small ones need more

// A permutation of [0, 2^(2 * half_bits)).
std::uint64_t permute(std::uint64_t x, int half_bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = x >> half_bits;
  std::uint64_t right = x & mask;
  SplitMix64 round_keys{key};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (SplitMix64::finish(round_keys() ^ right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::uint64_t seed)
    : samples_(samples), seed_(seed), half_bits_(1) {
  STRATA_CHECK(samples >= 1 && samples <= std::int64_t{1} << 62, "{} samples", samples);
  while (std::int64_t{1} << (2 * half_bits_) < samples) ++half_bits_;
}

std::int64_t SampleOrder::at(std::int64_t position) const {
  STRATA_CHECK(position >= 0, "position {}", position);
  const auto epoch_number = static_cast<std::uint64_t>(epoch(position));
  const std::uint64_t key =
      SplitMix64::finish(SplitMix64{seed_}() + epoch_number * SplitMix64::kGamma);
  auto sample = static_cast<std::uint64_t>(position % samples_);
  do {
    sample = permute(sample, half_bits_, key);
  } while (sample >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(sample);
}

}  // namespace strata::engine
