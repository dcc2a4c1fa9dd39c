#include "kernels/ops/cpu/isa/rows.h"
#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

template <typename T>
void rotate(const Rotary& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t half = op.head_dim / 2;
  const F32x16 sign = broadcast(op.turn == Turn::forward ? 1.0f : -1.0f);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const float* cos_row = op.cos + op.positions[row] * half;
    const float* sin_row = op.sin + op.positions[row] * half;
    T* const end = row_of<T>(op.x, row) + op.x.cols;
    for (T* head = row_of<T>(op.x, row); head != end; head += 2 * half) {
      for_each_vector(half, [&](std::int64_t i, auto lanes) {
        const F32x16 first = load(head + i, lanes);
        const F32x16 second = load(head + half + i, lanes);
        const F32x16 cos = load(cos_row + i, lanes);
        const F32x16 sin = sign * load(sin_row + i, lanes);
        store(head + i, first * cos - second * sin, lanes);
        store(head + half + i, second * cos + first * sin, lanes);
      });
    }
  }
}

}  // namespace

constinit const RotaryKernels rotary_kernels = {
    .rotate = {rotate<float>, rotate<bf16>},
};

}  // namespace strata::ops::cpu::STRATA_ISA
