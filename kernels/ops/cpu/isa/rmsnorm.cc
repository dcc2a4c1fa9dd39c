#include "kernels/ops/cpu/isa/rows.h"
#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

template <typename T>
void forward(const RmsNormForward& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t width = op.weight.cols;
  const std::int64_t groups = op.x.cols / width;
  const T* weight = row_of<const T>(op.weight, 0);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const T* x = row_of<const T>(op.x, row) + group * width;
      T* y = row_of<T>(op.y, row) + group * width;

      F32x16 squares = broadcast(0);
      for_each_vector(width, [&](std::int64_t i, auto lanes) {
        const F32x16 v = load(x + i, lanes);
        squares = squares + v * v;
      });
      const float mean_square = sum(squares) / static_cast<float>(width);
      const float rstd = 1.0f / __builtin_sqrtf(mean_square + op.epsilon);

      for_each_vector(width, [&](std::int64_t i, auto lanes) {
        store(y + i, load(x + i, lanes) * broadcast(rstd) * load(weight + i, lanes), lanes);
      });
      op.rstd[row * groups + group] = rstd;
    }
  }
}

// With g = dy · weight and n = x · rstd: dx = rstd (g - n · mean(g · n)).
template <typename X, typename Y>
void backward_input(const RmsNormBackward& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t width = op.weight.cols;
  const std::int64_t groups = op.x.cols / width;
  const X* weight = row_of<const X>(op.weight, 0);
  const bool adds = op.dx_into == Into::add;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const Y* dy = row_of<const Y>(op.dy, row) + group * width;
      const X* x = row_of<const X>(op.x, row) + group * width;
      X* dx = row_of<X>(op.dx, row) + group * width;
      const F32x16 rstd = broadcast(op.rstd[row * groups + group]);

      F32x16 gn_total = broadcast(0);
      for_each_vector(width, [&](std::int64_t i, auto lanes) {
        const F32x16 g = load(dy + i, lanes) * load(weight + i, lanes);
        gn_total = gn_total + g * (load(x + i, lanes) * rstd);
      });
      const F32x16 gn_mean = broadcast(sum(gn_total) / static_cast<float>(width));

      for_each_vector(width, [&](std::int64_t i, auto lanes) {
        const F32x16 g = load(dy + i, lanes) * load(weight + i, lanes);
        const F32x16 n = load(x + i, lanes) * rstd;
        F32x16 gradient = rstd * (g - n * gn_mean);
        if (adds) gradient = load(dx + i, lanes) + gradient;
        store(dx + i, gradient, lanes);
      });
    }
  }
}

// Groups are added in sets of about this many, then the sets: less rounding than one long chain.
constexpr std::int64_t kSetGroups = 128;

// dweight of kVectors × 16 columns of the weight from `column`, or of `lanes` columns.
template <typename X, typename Y, int kVectors, typename Lanes>
void backward_columns(const RmsNormBackward& op, std::int64_t column, Lanes lanes) {
  const std::int64_t width = op.weight.cols;
  const std::int64_t groups = op.x.cols / width;
  const std::int64_t set_rows = groups < kSetGroups ? kSetGroups / groups : 1;
  float* result = row_of<float>(op.dweight, 0) + column;
  F32x16 dweight[kVectors] = {};
  if (op.dweight_into == Into::add) {
    for (int v = 0; v < kVectors; ++v) dweight[v] = load(result + v * kLanes, lanes);
  }
  for (std::int64_t begin = 0; begin < op.x.rows; begin += set_rows) {
    const std::int64_t end = begin + set_rows < op.x.rows ? begin + set_rows : op.x.rows;
    F32x16 set[kVectors] = {};
    for (std::int64_t row = begin; row < end; ++row) {
      const Y* dy = row_of<const Y>(op.dy, row) + column;
      const X* x = row_of<const X>(op.x, row) + column;
      for (std::int64_t group = 0; group < groups; ++group, dy += width, x += width) {
        const F32x16 rstd = broadcast(op.rstd[row * groups + group]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const F32x16 normalised = load(x + v * kLanes, lanes) * rstd;
          set[v] = set[v] + load(dy + v * kLanes, lanes) * normalised;
        }
      }
    }
    for (int v = 0; v < kVectors; ++v) dweight[v] = dweight[v] + set[v];
  }
  for (int v = 0; v < kVectors; ++v) store(result + v * kLanes, dweight[v], lanes);
}

template <typename X, typename Y>
void backward_weight(const RmsNormBackward& op, std::int64_t column_begin,
                     std::int64_t column_end) {
  constexpr int kVectors = kNativeLanes == 16 ? 4 : 2;  // the set's sums fit the registers
  std::int64_t column = column_begin;
  for (; column + kVectors * kLanes <= column_end; column += kVectors * kLanes) {
    backward_columns<X, Y, kVectors>(op, column, Full{});
  }
  for_each_vector(column_end - column, [&](std::int64_t i, auto lanes) {
    backward_columns<X, Y, 1>(op, column + i, lanes);
  });
}

}  // namespace

constinit const RmsNormKernels rmsnorm_kernels = {
    .forward = {forward<float>, forward<bf16>},
    .backward_input = {{backward_input<float, float>, backward_input<float, bf16>},
                       {backward_input<bf16, float>, backward_input<bf16, bf16>}},
    .backward_weight = {{backward_weight<float, float>, backward_weight<float, bf16>},
                        {backward_weight<bf16, float>, backward_weight<bf16, bf16>}},
};

}  // namespace strata::ops::cpu::STRATA_ISA
