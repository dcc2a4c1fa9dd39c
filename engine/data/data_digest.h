// DataDigest: what training data are, in a few numbers, so that other data are noticed.
//
// Reads all of them or, of very large ones, windows that lie evenly over them: another tokenizer
// shows in any part, and what is met only in training is refused there (Samples::read).
#pragma once

#include <cstdint>
#include <optional>

#include "engine/data/token_data.h"

namespace strata::engine {

struct DataDigest {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;       // 0: they are not known
  std::int64_t read_tokens = 0;     // those that were looked at,
  std::int64_t trained_tokens = 0;  // and of them the ones that are trained
  // Checksums of what was looked at.
  std::uint64_t ids = 0;
  std::optional<std::uint64_t> mask;
  std::optional<std::uint64_t> document_starts;
};

// Throws as reading does: FormatError for an id outside the vocabulary or a damaged companion.
DataDigest digest_of(const TokenData& data);

}  // namespace strata::engine
