// Token and position embeddings, on a chunk of the vocabulary at a time, so that the table is never
// gathered whole. Token ids are i32 in device memory; ids outside the chunk are left alone.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// x (B·T, C) = positions (T', C) rows 0..T-1, repeated for each of the B sequences.
void position_embedding_forward(Stream& stream, Matrix x, Matrix positions, std::int64_t tokens);

// x row i += table row (ids[i] - first_id) where first_id <= ids[i] < first_id + table.rows.
void token_embedding_forward(Stream& stream, Matrix x, const std::int32_t* ids, Matrix table,
                             std::int64_t first_id);

// dpositions (T', C) f32 rows 0..T-1 = or += sum over the B sequences of dx (B·T, C), in order;
// with Into::overwrite the rows from T on become 0.
void position_embedding_backward(Stream& stream, Matrix dpositions, Into into, Matrix dx,
                                 std::int64_t tokens);

// dtable (rows of the chunk, C) f32: row (ids[i] - first_id) += dx row i, for i in increasing
// order. With Into::overwrite the chunk is zeroed first.
void token_embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                              const std::int32_t* ids, std::int64_t first_id);

}  // namespace strata::ops
