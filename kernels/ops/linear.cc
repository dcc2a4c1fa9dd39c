#include "kernels/ops/linear.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/linear.h"
#include "kernels/ops/cuda_ops.h"
#include "kernels/ops/elementwise.h"

namespace strata::ops {
namespace {

// y (M, N), x (M, K), w (N, K), in whichever of them the result is.
void check_shapes(const char* op, const Matrix& y, const Matrix& x, const Matrix& w) {
  check_view(op, y);
  check_view(op, x);
  check_view(op, w);
  STRATA_CHECK(y.rows > 0 && w.rows > 0 && y.rows == x.rows && y.cols == w.rows && x.cols == w.cols,
               "{}: y ({}, {}), x ({}, {}), w ({}, {})", op, y.rows, y.cols, x.rows, x.cols, w.rows,
               w.cols);
}

}  // namespace

void linear_forward(Stream& stream, Matrix y, Matrix x, Matrix w, const void* bias) {
  constexpr const char* kName = "linear_forward";
  check_shapes(kName, y, x, w);
  check_dtype(kName, w, x.dtype);
  check_dtype_or_f32(kName, y, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->linear_forward(stream, y, x, w, bias);
  }
  as_cpu(stream).launch(kName,
                        [=](CpuDevice& device) { cpu::linear_forward(device, y, x, w, bias); });
}

void linear_backward_input(Stream& stream, Matrix dx, Matrix dy, Matrix w, Into into) {
  constexpr const char* kName = "linear_backward_input";
  check_shapes(kName, dy, dx, w);
  check_dtype(kName, w, dy.dtype);
  check_dtype_or_f32(kName, dx, dy.dtype);
  if (into == Into::add) check_dtype(kName, dx, Dtype::f32);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->linear_backward_input(stream, dx, dy, w, into);
  }
  as_cpu(stream).launch(
      kName, [=](CpuDevice& device) { cpu::linear_backward_input(device, dx, dy, w, into); });
}

void linear_backward_weight(Stream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                            Into into) {
  constexpr const char* kName = "linear_backward_weight";
  check_shapes(kName, dy, x, dw);
  check_dtype(kName, x, dy.dtype);
  check_dtype(kName, dw, Dtype::f32);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->linear_backward_weight(stream, dw, dbias, dy, x, into);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::linear_backward_weight(device, dw, dbias, dy, x, into);
  });
}

void linear_gelu_forward(Stream& stream, Matrix y, Matrix h, Matrix x, Matrix w, const void* bias) {
  constexpr const char* kName = "linear_gelu_forward";
  check_shapes(kName, h, x, w);
  check_same_shape(kName, y, h);
  for (const Matrix& operand : {y, h, w}) check_dtype(kName, operand, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->linear_gelu_forward(stream, y, h, x, w, bias);
  }
  linear_forward(stream, h, x, w, bias);
  gelu_forward(stream, y, h);
}

void linear_gelu_backward_input(Stream& stream, Matrix dh, Matrix dy, Matrix w, Matrix h) {
  constexpr const char* kName = "linear_gelu_backward_input";
  check_shapes(kName, dy, dh, w);
  check_same_shape(kName, dh, h);
  for (const Matrix& operand : {dh, w, h}) check_dtype(kName, operand, dy.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->linear_gelu_backward_input(stream, dh, dy, w, h);
  }
  linear_backward_input(stream, dh, dy, w, Into::overwrite);
  gelu_backward(stream, dh, dh, h);
}

}  // namespace strata::ops
