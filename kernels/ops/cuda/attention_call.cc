#include "kernels/ops/cuda/attention_call.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/ops/cuda/attention.h"

namespace strata::ops::cuda {

AttentionCall attention_call(const AttentionShape& shape, const AttentionOptions& options,
                             std::int64_t keys, std::int64_t past) {
  STRATA_CHECK(shape.head_dim <= kAttentionHeadDimMax,
               "attention on a cuda device: heads of {} channels, and {} are the most",
               shape.head_dim, kAttentionHeadDimMax);
  STRATA_CHECK(keys < INT_MAX / 2, "attention: {} keys", keys);
  const auto dim = static_cast<double>(shape.head_dim);
  return {.tokens = static_cast<int>(shape.tokens),
          .keys = static_cast<int>(keys),
          .past = static_cast<int>(past),
          .heads = static_cast<int>(shape.heads),
          .heads_per_kv_head = static_cast<int>(shape.heads_per_kv_head()),
          .head_dim = static_cast<int>(shape.head_dim),
          .window = static_cast<int>(std::min<std::int64_t>(options.window, INT_MAX / 2)),
          .document_starts = options.document_starts,
          .scale = options.scale.value_or(static_cast<float>(1 / std::sqrt(dim)))};
}

}  // namespace strata::ops::cuda
