#include "kernels/ops/cpu/rotary.h"

#include "kernels/base/error.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {

void rotate(CpuDevice& device, const Rotary& op) {
  const std::int64_t table_bytes = op.table_rows * (op.head_dim / 2) * kF32Bytes;
  annotate_read(op.cos, table_bytes);
  annotate_read(op.sin, table_bytes);
  annotate_read(op.positions, op.x.rows * std::int64_t{sizeof(std::int32_t)});
  annotate_write(op.x);

  const auto kernel = kernel_table(op_state(device).isa).rotary.rotate[op.x.dtype];
  for_each_range(device, op.x.rows, kTileRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      STRATA_CHECK(op.positions[row] >= 0 && op.positions[row] < op.table_rows,
                   "rotary: row {} at position {} of {}", row, op.positions[row], op.table_rows);
    }
    kernel(op, begin, end);
  });
}

}  // namespace strata::ops::cpu
