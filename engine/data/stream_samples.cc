#include "engine/data/stream_samples.h"

#include <algorithm>
#include <numeric>

#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {

StreamSamples::StreamSamples(const TokenData& data, std::int64_t first, std::int64_t count,
                             std::int64_t seq_len)
    : tokens_(*data.tokens),
      mask_(data.mask.get()),
      first_(first),
      seq_len_(seq_len),
      samples_((count - 1) / seq_len) {
  STRATA_CHECK(first >= 0 && count > seq_len && count <= tokens_.tokens() - first);
}

std::optional<std::int64_t> StreamSamples::targets_per_sample() const {
  return mask_ == nullptr ? std::optional(seq_len_) : std::nullopt;
}

std::string StreamSamples::description() const { return count_text(samples_, "sequence"); }

void StreamSamples::read(std::int64_t sample, const SampleRows& rows) const {
  STRATA_CHECK(sample >= 0 && sample < samples_ && std::ssize(rows.tokens) >= seq_len_);
  const auto length = static_cast<std::size_t>(seq_len_);
  read_rows(tokens_, mask_, first_ + sample * seq_len_, rows.tokens.first(length),
            rows.targets.first(length));
  std::iota(rows.positions.begin(), rows.positions.begin() + seq_len_, 0);
  std::fill_n(rows.document_starts.begin(), length, 0);
  pad_rows(rows, seq_len_);
}

}  // namespace strata::engine
