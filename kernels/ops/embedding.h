// Embeddings: rows of a table by id, for tokens and for positions, on a chunk of the table at a
// time, so that it is never gathered whole. Ids are i32 in device memory; ids outside the chunk are
// left alone.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// x (M, C) row i = or += table row (ids[i] - first_id) where first_id <= ids[i] < first_id +
// table.rows. With Into::overwrite the other rows become 0.
void embedding_forward(Stream& stream, Matrix x, Into into, const std::int32_t* ids, Matrix table,
                       std::int64_t first_id);

// dtable (rows of the chunk, C) f32: row (ids[i] - first_id) += dx row i, for i in increasing
// order. With Into::overwrite the chunk is zeroed first.
void embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                        const std::int32_t* ids, std::int64_t first_id);

}  // namespace strata::ops
