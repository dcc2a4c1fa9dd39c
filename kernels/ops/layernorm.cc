#include "kernels/ops/layernorm.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/layernorm.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {

void layernorm_forward(Stream& stream, Matrix y, float* mean, float* rstd, Matrix x,
                       const void* weight, const void* bias) {
  constexpr const char* kName = "layernorm_forward";
  check_same_shape(kName, y, x);
  check_dtype(kName, y, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->layernorm_forward(stream, y, mean, rstd, x, weight, bias);
  }
  const cpu::LayerNormForward op{y, mean, rstd, x, weight, bias, kLayerNormEpsilon};
  as_cpu(stream).launch(kName, [op](CpuDevice& device) { cpu::layernorm_forward(device, op); });
}

void layernorm_backward(Stream& stream, Matrix dx, Into dx_into, float* dweight, float* dbias,
                        Into parameters, Matrix dy, Matrix x, const void* weight, const float* mean,
                        const float* rstd) {
  constexpr const char* kName = "layernorm_backward";
  check_same_shape(kName, dx, x);
  check_same_shape(kName, dy, x);
  check_dtype(kName, dx, x.dtype);
  check_dtype_or_f32(kName, dy, x.dtype);
  STRATA_CHECK(dx.data != x.data || (dx_into == Into::overwrite && dx.stride == x.stride),
               "{}: dx may be x itself only to overwrite it", kName);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->layernorm_backward(stream, dx, dx_into, dweight, dbias, parameters, dy, x, weight,
                                    mean, rstd);
  }
  const cpu::LayerNormBackward op{dx, dx_into, dweight, dbias, parameters,
                                  dy, x,       weight,  mean,  rstd};
  as_cpu(stream).launch(kName, [op](CpuDevice& device) { cpu::layernorm_backward(device, op); });
}

}  // namespace strata::ops
