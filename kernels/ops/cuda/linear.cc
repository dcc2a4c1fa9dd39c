#include "kernels/ops/cuda/linear.h"

#include "kernels/ops/cuda/bias.h"

namespace strata::ops::cuda {

void Linear::forward(cudaStream_t stream, const Matrix& y, const Matrix& x, const Matrix& w,
                     const void* bias) {
  const Factor weights = {w, Layout::transposed};
  if (bias != nullptr && !Matmul::can_add_bias(y, x, bias)) {
    bias_into_rows(stream, y, bias, x.dtype);
    matmul_.multiply(stream, y, {x}, weights, Into::add, nullptr);
  } else {
    matmul_.multiply(stream, y, {x}, weights, Into::overwrite, bias);
  }
}

void Linear::backward_input(cudaStream_t stream, const Matrix& dx, const Matrix& dy,
                            const Matrix& w, Into into) {
  matmul_.multiply(stream, dx, {dy}, {w}, into, nullptr);
}

void Linear::backward_weight(cudaStream_t stream, const Matrix& dw, float* dbias, const Matrix& dy,
                             const Matrix& x, Into into) {
  matmul_.multiply(stream, dw, {dy, Layout::transposed}, {x}, into, nullptr);
  if (dbias != nullptr) bias_gradient(stream, scratch_, dbias, dy, into);
}

}  // namespace strata::ops::cuda
