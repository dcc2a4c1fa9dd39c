#include "kernels/ops/cuda/linear.h"

#include "kernels/ops/cuda/bias.h"
#include "kernels/ops/cuda/elementwise.h"

namespace strata::ops::cuda {

void Linear::forward(cudaStream_t stream, const Matrix& y, const Matrix& x, const Matrix& w,
                     const void* bias) {
  const Factor weights = {w, Layout::transposed};
  if (bias != nullptr && !Matmul::can_add_bias(y, x, bias)) {
    bias_into_rows(stream, y, bias, x.dtype);
    matmul_.multiply(stream, y, {x}, weights, Into::add);
  } else {
    matmul_.multiply(stream, y, {x}, weights, Into::overwrite, {.bias = bias});
  }
}

void Linear::backward_input(cudaStream_t stream, const Matrix& dx, const Matrix& dy,
                            const Matrix& w, Into into) {
  matmul_.multiply(stream, dx, {dy}, {w}, into);
}

void Linear::backward_weight(cudaStream_t stream, const Matrix& dw, float* dbias, const Matrix& dy,
                             const Matrix& x, Into into) {
  matmul_.multiply(stream, dw, {dy, Layout::transposed}, {x}, into);
  if (dbias != nullptr) bias_gradient(stream, scratch_, dbias, dy, into);
}

void Linear::gelu_forward(cudaStream_t stream, const Matrix& y, const Matrix& h, const Matrix& x,
                          const Matrix& w, const void* bias) {
  const Factor weights = {w, Layout::transposed};
  const Epilogue epilogue = {.bias = bias, .gelu = Gelu::forward, .gelu_input = h};
  if (matmul_.can_multiply(y, {x}, weights, epilogue)) {
    return matmul_.multiply(stream, y, {x}, weights, Into::overwrite, epilogue);
  }
  forward(stream, h, x, w, bias);
  cuda::gelu_forward(stream, y, h);
}

void Linear::gelu_backward_input(cudaStream_t stream, const Matrix& dh, const Matrix& dy,
                                 const Matrix& w, const Matrix& h) {
  const Epilogue epilogue = {.gelu = Gelu::backward, .gelu_input = h};
  if (matmul_.can_multiply(dh, {dy}, {w}, epilogue)) {
    return matmul_.multiply(stream, dh, {dy}, {w}, Into::overwrite, epilogue);
  }
  backward_input(stream, dh, dy, w, Into::overwrite);
  cuda::gelu_backward(stream, dh, dh, h);
}

}  // namespace strata::ops::cuda
