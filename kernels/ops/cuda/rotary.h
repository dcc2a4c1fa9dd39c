// rotary.h on a cuda device. A position outside the tables is not refused as on the cpu device: its
// row becomes NaN.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/rotary.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

void rotary_forward(cudaStream_t stream, const Matrix& x, const RotaryTables& tables,
                    const std::int32_t* positions);
void rotary_backward(cudaStream_t stream, const Matrix& dx, const RotaryTables& tables,
                     const std::int32_t* positions);

}  // namespace strata::ops::cuda
