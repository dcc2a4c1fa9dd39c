#include "kernels/ops/linear.h"

#include "kernels/base/error.h"
#include "kernels/ops/cpu/linear.h"

namespace strata::ops {
namespace {

void check_view(const Matrix& matrix) {
  STRATA_CHECK(matrix.data != nullptr && matrix.rows > 0 && matrix.cols > 0 &&
               matrix.stride >= matrix.cols);
}

void check_views(const Matrix& y, const Matrix& x, const Matrix& w) {
  check_view(y);
  check_view(x);
  check_view(w);
}

// y (M, N), x (M, K), w (N, K), in whichever of them the result is.
void check_shapes(const Matrix& y, const Matrix& x, const Matrix& w) {
  STRATA_CHECK(y.rows == x.rows && y.cols == w.rows && x.cols == w.cols,
               "linear: y ({}, {}), x ({}, {}), w ({}, {})", y.rows, y.cols, x.rows, x.cols, w.rows,
               w.cols);
}

}  // namespace

void linear_forward(Stream& stream, Matrix y, Matrix x, Matrix w, const void* bias) {
  check_views(y, x, w);
  check_shapes(y, x, w);
  STRATA_CHECK(x.dtype == w.dtype && (y.dtype == x.dtype || y.dtype == Dtype::f32));
  switch (stream.device().kind()) {
    case DeviceKind::cpu:
      return cpu::linear_forward(as_cpu(stream), y, x, w, bias);
    case DeviceKind::cuda:
      STRATA_CHECK(false, "linear_forward has no CUDA implementation");
  }
}

void linear_backward_input(Stream& stream, Matrix dx, Matrix dy, Matrix w, Into into) {
  check_views(dy, dx, w);
  check_shapes(dy, dx, w);
  STRATA_CHECK(dy.dtype == w.dtype && (dx.dtype == dy.dtype || dx.dtype == Dtype::f32));
  STRATA_CHECK(into == Into::overwrite || dx.dtype == Dtype::f32);
  switch (stream.device().kind()) {
    case DeviceKind::cpu:
      return cpu::linear_backward_input(as_cpu(stream), dx, dy, w, into);
    case DeviceKind::cuda:
      STRATA_CHECK(false, "linear_backward_input has no CUDA implementation");
  }
}

void linear_backward_weight(Stream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                            Into into) {
  check_views(dy, x, dw);
  check_shapes(dy, x, dw);
  STRATA_CHECK(dy.dtype == x.dtype && dw.dtype == Dtype::f32);
  switch (stream.device().kind()) {
    case DeviceKind::cpu:
      return cpu::linear_backward_weight(as_cpu(stream), dw, dbias, dy, x, into);
    case DeviceKind::cuda:
      STRATA_CHECK(false, "linear_backward_weight has no CUDA implementation");
  }
}

}  // namespace strata::ops
