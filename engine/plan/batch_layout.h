// BatchLayout: how the sequences of a step are divided: over ranks, into micro-batches, into
// passes.
//
// `global_batch` is the primary quantity. Rank r of N takes sequences [⌊G r / N⌋, ⌊G (r+1) / N⌋);
// shares may be uneven. Every rank does the same number of passes, because ranks gather units
// together; one whose share ends earlier contributes nothing to the last ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/bytes.h"

namespace strata::engine {

struct BatchLayout {
  std::int64_t global_batch = 0;  // sequences
  std::int64_t micro_batch = 0;   // sequences
  std::int64_t seq_len = 0;       // tokens
  int world_size = 1;
  std::int64_t pass_size = 0;  // micro-batches per pass

  std::int64_t first_sequence(int rank) const { return global_batch * rank / world_size; }
  std::int64_t sequences(int rank) const { return first_sequence(rank + 1) - first_sequence(rank); }
  std::int64_t sequences_max() const { return ceil_div(global_batch, world_size); }
  std::int64_t micro_batches(int rank) const { return ceil_div(sequences(rank), micro_batch); }
  std::int64_t micro_batches_max() const { return ceil_div(sequences_max(), micro_batch); }
  // Rows of the micro-batches of a whole step, the last one counted as full.
  std::int64_t step_rows_max() const { return micro_batches_max() * micro_batch * seq_len; }
  // A token id, a target, a position and a document start, i32.
  static constexpr std::int64_t kRowBytes = 4 * 4;
  std::int64_t token_bytes() const { return step_rows_max() * kRowBytes; }
  int passes() const { return static_cast<int>(ceil_div(micro_batches_max(), pass_size)); }
  // Micro-batches of the largest pass.
  std::int64_t pass_micro_batches_max() const { return std::min(pass_size, micro_batches_max()); }
  // All rows of a step whose sequences are full.
  std::int64_t tokens_per_step() const { return global_batch * seq_len; }
};

}  // namespace strata::engine
