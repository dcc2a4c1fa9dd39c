// elementwise.h on a cuda device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/ops/view.h"

namespace strata::ops::cuda {

void gelu_forward(cudaStream_t stream, const Matrix& y, const Matrix& x);
void gelu_backward(cudaStream_t stream, const Matrix& dx, const Matrix& dy, const Matrix& x);
void swiglu_forward(cudaStream_t stream, const Matrix& y, const Matrix& gate, const Matrix& up);
void swiglu_backward(cudaStream_t stream, const Matrix& dgate, const Matrix& dup, const Matrix& dy,
                     const Matrix& gate, const Matrix& up);
void add(cudaStream_t stream, const Matrix& y, const Matrix& a, const Matrix& b);

}  // namespace strata::ops::cuda
