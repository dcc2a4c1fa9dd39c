#include "kernels/ops/rotary.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/rotary.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {
namespace {

void launch(Stream& stream, const char* name, const Matrix& x, const RotaryTables& tables,
            const std::int32_t* positions, cpu::Turn turn) {
  check_view(name, x);
  STRATA_CHECK(tables.head_dim > 0 && tables.head_dim % 2 == 0 && x.cols % tables.head_dim == 0,
               "{}: rows of {} columns are no heads of {}", name, x.cols, tables.head_dim);
  STRATA_CHECK(tables.cos != nullptr && tables.sin != nullptr && positions != nullptr,
               "{}: a null operand", name);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return turn == cpu::Turn::forward ? cuda->rotary_forward(stream, x, tables, positions)
                                      : cuda->rotary_backward(stream, x, tables, positions);
  }
  const cpu::Rotary op{x,         tables.cos, tables.sin, tables.positions, tables.head_dim,
                       positions, turn};
  as_cpu(stream).launch(name, [op](CpuDevice& device) { cpu::rotate(device, op); });
}

}  // namespace

void rotary_forward(Stream& stream, Matrix x, const RotaryTables& tables,
                    const std::int32_t* positions) {
  launch(stream, "rotary_forward", x, tables, positions, cpu::Turn::forward);
}

void rotary_backward(Stream& stream, Matrix dx, const RotaryTables& tables,
                     const std::int32_t* positions) {
  launch(stream, "rotary_backward", dx, tables, positions, cpu::Turn::back);
}

}  // namespace strata::ops
