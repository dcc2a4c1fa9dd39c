#include "kernels/ops/cpu/isa/rows.h"
#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

template <typename T>
void forward(const LayerNormForward& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t cols = op.x.cols;
  const T* weight = static_cast<const T*>(op.weight);
  const T* bias = static_cast<const T*>(op.bias);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const T* x = row_of<const T>(op.x, row);
    T* y = row_of<T>(op.y, row);

    F32x16 total = broadcast(0);
    for_each_vector(cols, [&](std::int64_t i, auto lanes) { total = total + load(x + i, lanes); });
    const float mean = sum(total) / static_cast<float>(cols);

    F32x16 squares = broadcast(0);
    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      const F32x16 centred = load(x + i, lanes, mean) - broadcast(mean);
      squares = squares + centred * centred;
    });
    const float variance = sum(squares) / static_cast<float>(cols);
    const float rstd = 1.0f / __builtin_sqrtf(variance + op.epsilon);

    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      const F32x16 normalised = (load(x + i, lanes) - broadcast(mean)) * broadcast(rstd);
      store(y + i, normalised * load(weight + i, lanes) + load(bias + i, lanes), lanes);
    });
    op.mean[row] = mean;
    op.rstd[row] = rstd;
  }
}

// With g = dy · weight and n = (x - mean) · rstd: dx = rstd (g - mean(g) - n · mean(g · n)).
template <typename X, typename Y>
void backward_input(const LayerNormBackward& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t cols = op.x.cols;
  const X* weight = static_cast<const X*>(op.weight);
  const bool adds = op.dx_into == Into::add;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const Y* dy = row_of<const Y>(op.dy, row);
    const X* x = row_of<const X>(op.x, row);
    X* dx = row_of<X>(op.dx, row);
    const F32x16 mean = broadcast(op.mean[row]);
    const F32x16 rstd = broadcast(op.rstd[row]);

    F32x16 g_total = broadcast(0);
    F32x16 gn_total = broadcast(0);
    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      const F32x16 g = load(dy + i, lanes) * load(weight + i, lanes);
      g_total = g_total + g;
      gn_total = gn_total + g * ((load(x + i, lanes) - mean) * rstd);
    });
    const F32x16 g_mean = broadcast(sum(g_total) / static_cast<float>(cols));
    const F32x16 gn_mean = broadcast(sum(gn_total) / static_cast<float>(cols));

    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      const F32x16 g = load(dy + i, lanes) * load(weight + i, lanes);
      const F32x16 n = (load(x + i, lanes) - mean) * rstd;
      F32x16 gradient = rstd * (g - g_mean - n * gn_mean);
      if (adds) gradient = load(dx + i, lanes) + gradient;
      store(dx + i, gradient, lanes);
    });
  }
}

// Rows are added in groups of this many, then the groups: less rounding than one long chain.
constexpr std::int64_t kRowGroup = 128;

// dweight and dbias of kVectors × 16 columns from `column`, or of `lanes` columns.
template <typename X, typename Y, int kVectors, typename Lanes>
void backward_columns(const LayerNormBackward& op, std::int64_t column, Lanes lanes) {
  F32x16 dweight[kVectors] = {};
  F32x16 dbias[kVectors] = {};
  if (op.parameters == Into::add) {
    for (int v = 0; v < kVectors; ++v) {
      dweight[v] = load(op.dweight + column + v * kLanes, lanes);
      dbias[v] = load(op.dbias + column + v * kLanes, lanes);
    }
  }
  for (std::int64_t begin = 0; begin < op.x.rows; begin += kRowGroup) {
    const std::int64_t end = begin + kRowGroup < op.x.rows ? begin + kRowGroup : op.x.rows;
    F32x16 group_dweight[kVectors] = {};
    F32x16 group_dbias[kVectors] = {};
    for (std::int64_t row = begin; row < end; ++row) {
      const Y* dy = row_of<const Y>(op.dy, row) + column;
      const X* x = row_of<const X>(op.x, row) + column;
      const F32x16 mean = broadcast(op.mean[row]);
      const F32x16 rstd = broadcast(op.rstd[row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const F32x16 gradient = load(dy + v * kLanes, lanes);
        const F32x16 normalised = (load(x + v * kLanes, lanes) - mean) * rstd;
        group_dweight[v] = group_dweight[v] + gradient * normalised;
        group_dbias[v] = group_dbias[v] + gradient;
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      dweight[v] = dweight[v] + group_dweight[v];
      dbias[v] = dbias[v] + group_dbias[v];
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    store(op.dweight + column + v * kLanes, dweight[v], lanes);
    store(op.dbias + column + v * kLanes, dbias[v], lanes);
  }
}

template <typename X, typename Y>
void backward_parameters(const LayerNormBackward& op, std::int64_t column_begin,
                         std::int64_t column_end) {
  constexpr int kVectors = kNativeLanes == 16 ? 4 : 2;  // the group's sums fit the registers
  std::int64_t column = column_begin;
  for (; column + kVectors * kLanes <= column_end; column += kVectors * kLanes) {
    backward_columns<X, Y, kVectors>(op, column, Full{});
  }
  for_each_vector(column_end - column, [&](std::int64_t i, auto lanes) {
    backward_columns<X, Y, 1>(op, column + i, lanes);
  });
}

}  // namespace

constinit const LayerNormKernels layernorm_kernels = {
    .forward = {forward<float>, forward<bf16>},
    .backward_input = {{backward_input<float, float>, backward_input<float, bf16>},
                       {backward_input<bf16, float>, backward_input<bf16, bf16>}},
    .backward_parameters = {{backward_parameters<float, float>, backward_parameters<float, bf16>},
                            {backward_parameters<bf16, float>, backward_parameters<bf16, bf16>}},
};

}  // namespace strata::ops::cpu::STRATA_ISA
