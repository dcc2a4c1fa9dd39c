// Samples: the data as training sees it: sequences of rows, each a token, the token to predict
// after it, its position and where its document starts.
//
//   stream      windows of seq_len + 1 tokens at multiples of seq_len       stream_samples.h
//   documents   one document per sequence, the rest of the rows is padding  document_samples.h
//   packed      whole documents, as many as fit, none attending to another  document_samples.h
//
// A sample is named by its number; SampleOrder (sample_order.h) says when which is visited.
// Thread contract: immutable; reads may come from any thread, at once, and allocate nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace strata::engine {

// Where the rows of one sample go: spans of one length.
struct SampleRows {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> targets;          // ops::kIgnoredTarget: no loss in this row
  std::span<std::int32_t> positions;        // in the token's document
  std::span<std::int32_t> document_starts;  // the first row of the token's document
};

// Padded samples of one micro-batch have one length: a multiple of this, or seq_len.
inline constexpr std::int64_t kPaddedMultiple = 32;

// How the rows of a sample lie in its sequence.
enum class SampleLayout {
  full,    // seq_len rows of one document
  padded,  // up to seq_len rows of one document
  packed,  // up to seq_len rows of several
};

class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::int64_t count() const = 0;
  virtual std::int64_t tokens() const = 0;  // rows of all samples, padding not counted
  virtual SampleLayout layout() const = 0;
  // Where all samples have the same number.
  virtual std::optional<std::int64_t> targets_per_sample() const = 0;
  virtual std::string description() const = 0;  // "3 sequences of 7 documents, packed, …"

  // 1 to seq_len. Throws as read().
  virtual std::int64_t rows(std::int64_t sample) const = 0;
  // Fills rows(sample) rows, and those behind them with padding. Throws IoError, or FormatError
  // naming file and position of an id outside the vocabulary or of a damaged companion.
  virtual void read(std::int64_t sample, const SampleRows& rows) const = 0;
};

// Rows [first, end) as padding: a document of their own, without targets.
void pad_rows(const SampleRows& rows, std::int64_t first);

}  // namespace strata::engine
