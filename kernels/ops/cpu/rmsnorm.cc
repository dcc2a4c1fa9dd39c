#include "kernels/ops/cpu/rmsnorm.h"

#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {
namespace {

std::int64_t rstd_bytes(const Matrix& x, const Matrix& weight) {
  return x.rows * (x.cols / weight.cols) * kF32Bytes;
}

}  // namespace

void rmsnorm_forward(CpuDevice& device, const RmsNormForward& op) {
  annotate_read(op.x);
  annotate_read(op.weight);
  annotate_write(op.y);
  annotate_write(op.rstd, rstd_bytes(op.x, op.weight));

  const auto forward = kernel_table(op_state(device).isa).rmsnorm.forward[op.x.dtype];
  for_each_range(device, op.x.rows, kTileRows,
                 [&](std::int64_t begin, std::int64_t end) { forward(op, begin, end); });
}

void rmsnorm_backward(CpuDevice& device, const RmsNormBackward& op) {
  annotate_read(op.dy);
  annotate_read(op.x);
  annotate_read(op.weight);
  annotate_read(op.rstd, rstd_bytes(op.x, op.weight));
  annotate_write(op.dx);
  annotate_write(op.dweight);

  const RmsNormKernels& kernels = kernel_table(op_state(device).isa).rmsnorm;
  // The weight first: dx may be x or dy.
  const auto weight = kernels.backward_weight[op.x.dtype][op.dy.dtype];
  for_each_range(device, op.weight.cols, kTileColumns,
                 [&](std::int64_t begin, std::int64_t end) { weight(op, begin, end); });
  const auto input = kernels.backward_input[op.x.dtype][op.dy.dtype];
  for_each_range(device, op.x.rows, kTileRows,
                 [&](std::int64_t begin, std::int64_t end) { input(op, begin, end); });
}

}  // namespace strata::ops::cpu
