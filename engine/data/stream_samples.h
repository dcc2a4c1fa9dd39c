// StreamSamples: tokens cut into windows: sample s is the inputs [s·T, s·T + T) of a range of
// tokens and the same shifted by one as targets, so neighbours share one token. What is left at the
// end is not used. Documents are not known, or do not matter.
#pragma once

#include "engine/data/samples.h"
#include "engine/data/token_data.h"

namespace strata::engine {

class StreamSamples final : public Samples {
 public:
  // Of the `count` tokens from `first` on: at least seq_len + 1. `data` must outlive it.
  StreamSamples(const TokenData& data, std::int64_t first, std::int64_t count,
                std::int64_t seq_len);

  std::int64_t count() const override { return samples_; }
  std::int64_t tokens() const override { return samples_ * seq_len_; }
  SampleLayout layout() const override { return SampleLayout::full; }
  std::optional<std::int64_t> targets_per_sample() const override;
  std::string description() const override;
  std::int64_t rows(std::int64_t) const override { return seq_len_; }
  void read(std::int64_t sample, const SampleRows& rows) const override;

 private:
  const TokenSource& tokens_;
  const TokenMask* mask_;
  std::int64_t first_;
  std::int64_t seq_len_;
  std::int64_t samples_;
};

}  // namespace strata::engine
