// The order in which samples are visited: a seeded permutation of [0, samples) per epoch that needs
// no memory. Position p of the run is sample at(p), and each sample occurs once in every epoch of
// `samples` positions, so a resumed run needs the position alone.
//
// Method: a Feistel network, keyed by seed and epoch, permutes [0, 2^2h), the smallest such range
// that holds all samples; results outside [0, samples) are fed back in until one is inside (cycle
// walking; Black & Rogaway 2002). The range is less than four times as large, so that takes few
// rounds.
//
// Thread contract: immutable.
#pragma once

#include <cstdint>

namespace strata::engine {

class SampleOrder {
 public:
  // samples >= 1.
  SampleOrder(std::int64_t samples, std::uint64_t seed);
  std::int64_t at(std::int64_t position) const;
  std::int64_t epoch(std::int64_t position) const { return position / samples_; }
  std::int64_t samples() const { return samples_; }

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
  int half_bits_;  // h
};

}  // namespace strata::engine
