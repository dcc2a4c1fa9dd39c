#include "kernels/ops/cpu/elementwise.h"

#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {
namespace {

const ElementwiseKernels& kernels_of(CpuDevice& device) {
  return kernel_table(op_state(device).isa).elementwise;
}

void run(CpuDevice& device, ElementwiseKernels::Unary kernel, const Matrix& y, const Matrix& x) {
  annotate_read(x);
  annotate_write(y);
  for_each_span(
      device,
      [&](std::int64_t elements, void* output, const void* input) {
        kernel(output, input, elements);
      },
      y, x);
}

void run(CpuDevice& device, ElementwiseKernels::Binary kernel, const Matrix& y, const Matrix& a,
         const Matrix& b) {
  annotate_read(a);
  annotate_read(b);
  annotate_write(y);
  for_each_span(
      device,
      [&](std::int64_t elements, void* output, const void* left, const void* right) {
        kernel(output, left, right, elements);
      },
      y, a, b);
}

}  // namespace

void gelu_forward(CpuDevice& device, const Matrix& y, const Matrix& x) {
  run(device, kernels_of(device).gelu_forward[x.dtype], y, x);
}

void gelu_backward(CpuDevice& device, const Matrix& dx, const Matrix& dy, const Matrix& x) {
  run(device, kernels_of(device).gelu_backward[x.dtype], dx, dy, x);
}

void swiglu_forward(CpuDevice& device, const Matrix& y, const Matrix& gate, const Matrix& up) {
  run(device, kernels_of(device).swiglu_forward[y.dtype], y, gate, up);
}

void swiglu_backward(CpuDevice& device, const Matrix& dgate, const Matrix& dup, const Matrix& dy,
                     const Matrix& gate, const Matrix& up) {
  for (const Matrix& input : {dy, gate, up}) annotate_read(input);
  annotate_write(dgate);
  annotate_write(dup);
  const auto kernel = kernels_of(device).swiglu_backward[dy.dtype];
  for_each_span(
      device,
      [&](std::int64_t elements, void* gate_gradient, void* up_gradient, const void* gradient,
          const void* gates,
          const void* ups) { kernel(gate_gradient, up_gradient, gradient, gates, ups, elements); },
      dgate, dup, dy, gate, up);
}

void add(CpuDevice& device, const Matrix& y, const Matrix& a, const Matrix& b) {
  run(device, kernels_of(device).add[y.dtype], y, a, b);
}

}  // namespace strata::ops::cpu
