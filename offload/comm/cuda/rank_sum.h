// The sum of a reduce-scatter on a GPU: the bits of offload/comm/rank_sum.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::comm {

// own[i] = (…((term 0 + term 1) + term 2) + …), one rounding per addition: rank `rank`'s term is
// `own`, the others' follow each other in `others`, in rank order, `stride` elements apart.
void sum_in_rank_order(cudaStream_t stream, float* own, const float* others, std::int64_t stride,
                       int rank, int ranks, std::int64_t elements);

}  // namespace strata::comm
