// The sum of a reduce-scatter: f32, in rank order, so that its bits depend on the ranks' data
// alone.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/worker_set.h"

namespace strata::comm {

// destination[i] = (…((terms[0][i] + terms[1][i]) + terms[2][i]) + …), one rounding per addition.
// destination may be one of the terms; otherwise they do not overlap. Runs in tiles on `workers`;
// neither tiles nor threads change a bit.
void sum_in_rank_order(WorkerSet& workers, float* destination, std::span<const float* const> terms,
                       std::int64_t elements);

}  // namespace strata::comm
