#include "kernels/ops/rmsnorm.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/rmsnorm.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {
namespace {

void check_weight(const char* op, const Matrix& x, const Matrix& weight) {
  check_view(op, weight);
  check_dtype(op, weight, x.dtype);
  STRATA_CHECK(weight.rows == 1 && x.cols % weight.cols == 0,
               "{}: a weight ({}, {}) for rows of {} columns", op, weight.rows, weight.cols,
               x.cols);
}

}  // namespace

void rmsnorm_forward(Stream& stream, Matrix y, float* rstd, Matrix x, Matrix weight,
                     float epsilon) {
  constexpr const char* kName = "rmsnorm_forward";
  check_same_shape(kName, y, x);
  check_dtype(kName, y, x.dtype);
  check_weight(kName, x, weight);
  STRATA_CHECK(y.data != x.data || y.stride == x.stride, "{}: y overlaps x", kName);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->rmsnorm_forward(stream, y, rstd, x, weight, epsilon);
  }
  const cpu::RmsNormForward op{y, rstd, x, weight, epsilon};
  as_cpu(stream).launch(kName, [op](CpuDevice& device) { cpu::rmsnorm_forward(device, op); });
}

void rmsnorm_backward(Stream& stream, Matrix dx, Into dx_into, Matrix dweight, Into dweight_into,
                      Matrix dy, Matrix x, Matrix weight, const float* rstd) {
  constexpr const char* kName = "rmsnorm_backward";
  check_same_shape(kName, dx, x);
  check_same_shape(kName, dy, x);
  check_dtype(kName, dx, x.dtype);
  check_dtype_or_f32(kName, dy, x.dtype);
  check_weight(kName, x, weight);
  check_same_shape(kName, dweight, weight);
  check_dtype(kName, dweight, Dtype::f32);
  for (const Matrix& input : {x, dy}) {
    STRATA_CHECK(dx.data != input.data || (dx_into == Into::overwrite &&
                                           dx.stride == input.stride && dx.dtype == input.dtype),
                 "{}: dx may be x or dy itself only to overwrite it", kName);
  }
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->rmsnorm_backward(stream, dx, dx_into, dweight, dweight_into, dy, x, weight, rstd);
  }
  const cpu::RmsNormBackward op{dx, dx_into, dweight, dweight_into, dy, x, weight, rstd};
  as_cpu(stream).launch(kName, [op](CpuDevice& device) { cpu::rmsnorm_backward(device, op); });
}

}  // namespace strata::ops
