#include "kernels/ops/elementwise.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {

void gelu_forward(Stream& stream, Matrix y, Matrix x) {
  constexpr const char* kName = "gelu_forward";
  check_same_shape(kName, y, x);
  check_dtype(kName, y, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->gelu_forward(stream, y, x);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) { cpu::gelu_forward(device, y, x); });
}

void gelu_backward(Stream& stream, Matrix dx, Matrix dy, Matrix x) {
  constexpr const char* kName = "gelu_backward";
  check_same_shape(kName, dx, x);
  check_same_shape(kName, dy, x);
  check_dtype(kName, dx, x.dtype);
  check_dtype(kName, dy, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->gelu_backward(stream, dx, dy, x);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) { cpu::gelu_backward(device, dx, dy, x); });
}

void swiglu_forward(Stream& stream, Matrix y, Matrix gate, Matrix up) {
  constexpr const char* kName = "swiglu_forward";
  for (const Matrix& input : {gate, up}) {
    check_same_shape(kName, y, input);
    check_dtype(kName, input, y.dtype);
  }
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->swiglu_forward(stream, y, gate, up);
  }
  as_cpu(stream).launch(kName,
                        [=](CpuDevice& device) { cpu::swiglu_forward(device, y, gate, up); });
}

void swiglu_backward(Stream& stream, Matrix dgate, Matrix dup, Matrix dy, Matrix gate, Matrix up) {
  constexpr const char* kName = "swiglu_backward";
  for (const Matrix& other : {dgate, dup, gate, up}) {
    check_same_shape(kName, dy, other);
    check_dtype(kName, other, dy.dtype);
  }
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->swiglu_backward(stream, dgate, dup, dy, gate, up);
  }
  as_cpu(stream).launch(
      kName, [=](CpuDevice& device) { cpu::swiglu_backward(device, dgate, dup, dy, gate, up); });
}

void add(Stream& stream, Matrix y, Matrix a, Matrix b) {
  constexpr const char* kName = "add";
  check_same_shape(kName, y, a);
  check_same_shape(kName, y, b);
  check_dtype(kName, a, y.dtype);
  check_dtype(kName, b, y.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->add(stream, y, a, b);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) { cpu::add(device, y, a, b); });
}

}  // namespace strata::ops
