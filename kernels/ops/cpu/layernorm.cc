#include "kernels/ops/cpu/layernorm.h"

#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {

void layernorm_forward(CpuDevice& device, const LayerNormForward& op) {
  const Matrix& x = op.x;
  annotate_read(x);
  annotate_read(op.weight, x.cols * bytes_of(x.dtype));
  annotate_read(op.bias, x.cols * bytes_of(x.dtype));
  annotate_write(op.y);
  annotate_write(op.mean, x.rows * kF32Bytes);
  annotate_write(op.rstd, x.rows * kF32Bytes);

  const auto forward = kernel_table(op_state(device).isa).layernorm.forward[x.dtype];
  for_each_range(device, x.rows, kTileRows,
                 [&](std::int64_t begin, std::int64_t end) { forward(op, begin, end); });
}

void layernorm_backward(CpuDevice& device, const LayerNormBackward& op) {
  const Matrix& x = op.x;
  annotate_read(op.dy);
  annotate_read(x);
  annotate_read(op.weight, x.cols * bytes_of(x.dtype));
  annotate_read(op.mean, x.rows * kF32Bytes);
  annotate_read(op.rstd, x.rows * kF32Bytes);
  annotate_write(op.dx);
  annotate_write(op.dweight, x.cols * kF32Bytes);
  annotate_write(op.dbias, x.cols * kF32Bytes);

  const LayerNormKernels& kernels = kernel_table(op_state(device).isa).layernorm;
  // The parameters first: dx may be x.
  const auto parameters = kernels.backward_parameters[x.dtype][op.dy.dtype];
  for_each_range(device, x.cols, kTileColumns,
                 [&](std::int64_t begin, std::int64_t end) { parameters(op, begin, end); });
  const auto input = kernels.backward_input[x.dtype][op.dy.dtype];
  for_each_range(device, x.rows, kTileRows,
                 [&](std::int64_t begin, std::int64_t end) { input(op, begin, end); });
}

}  // namespace strata::ops::cpu
