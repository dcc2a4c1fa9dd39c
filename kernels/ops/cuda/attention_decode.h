// Attention of one new token to all in a cache: of a tile of queries it would fill one row. A block
// takes some keys for one head; a second kernel joins what the blocks made, in order.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/ops/cuda/attention_call.h"
#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

// Of out and q (1, H·D), keys and values (P, Hkv·D); call.tokens is 1, without documents.
void attention_decode(cudaStream_t stream, const Scratch& scratch, const AttentionCall& call,
                      const Matrix& out, const Matrix& q, const Matrix& keys, const Matrix& values);

}  // namespace strata::ops::cuda
