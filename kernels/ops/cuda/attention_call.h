// A call of attention, as its kernels take it.
#pragma once

#include <cstdint>

#include "kernels/ops/attention.h"

namespace strata::ops::cuda {

struct AttentionCall {
  int tokens;  // T
  int keys;    // rows of k and v of a sequence: T, or a cache's
  int past;    // position of query 0
  int heads;
  int heads_per_kv_head;
  int head_dim;
  int window;                           // 0: none
  const std::int32_t* document_starts;  // (B, T), or null
  float scale;
};

// `keys`, `past`: as there.
AttentionCall attention_call(const AttentionShape& shape, const AttentionOptions& options,
                             std::int64_t keys, std::int64_t past);

}  // namespace strata::ops::cuda
