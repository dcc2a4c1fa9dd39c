#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/matmul.h"
#include "kernels/ops/cpu/matmul_state.h"

namespace strata::ops {
namespace {

// Speed does not depend on how many tiles there are, nor on a sum's length once it is long: a few
// tiles for each worker are measured.
constexpr std::int64_t kMeasuredRowsMax = 512;
constexpr std::int64_t kMeasuredTermsMax = 4096;
constexpr std::int64_t kMeasuredColsPerWorker = 512;
constexpr std::int64_t kMeasuredColsMin = 2048;
constexpr int kMeasuredRuns = 3;

// Uniform in [-1, 1), from a linear congruential generator (Knuth's MMIX constants).
void fill_random(const Matrix& matrix) {
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float value = static_cast<float>(static_cast<std::int64_t>(state) >> 40) * 0x1p-23f;
    if (matrix.dtype == Dtype::f32) {
      static_cast<float*>(matrix.data)[i] = value;
    } else {
      static_cast<bf16*>(matrix.data)[i] = to_bf16_nearest_even(value);
    }
  }
}

// The operands of a matmul of this kind in memory of their own.
class MeasuredProduct {
 public:
  MeasuredProduct(CpuDevice& device, const MatmulShape& shape, Dtype operands) {
    const std::int64_t cols_max =
        std::max(kMeasuredColsMin, kMeasuredColsPerWorker * device.workers().threads());
    std::int64_t m = shape.rows;
    std::int64_t n = shape.n;
    std::int64_t k = shape.k;
    cpu::Layout a_layout = cpu::Layout::plain;
    cpu::Layout b_layout = cpu::Layout::plain;
    switch (shape.kind) {
      case MatmulKind::forward:
        b_layout = cpu::Layout::transposed;
        break;
      case MatmulKind::backward_input:
        std::swap(n, k);
        break;
      case MatmulKind::backward_weight:
        a_layout = cpu::Layout::transposed;
        m = shape.n;
        n = shape.k;
        k = shape.rows;
        break;
    }
    m = std::min(m, kMeasuredRowsMax);
    n = std::min(n, cols_max);
    k = std::min(k, kMeasuredTermsMax);
    const Dtype result = shape.kind == MatmulKind::backward_weight ? Dtype::f32 : operands;
    product_ = {.c = make(device, result, m, n),
                .a = make(device, operands, m, k, a_layout),
                .b = make(device, operands, k, n, b_layout)};
    flops_ = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  // Best of a few runs, after one that compiles.
  double flops_per_s(CpuDevice& device, Dtype arithmetic) const {
    const cpu::TiledMatmul matmul(cpu::matmul_state(device), product_, arithmetic);
    double best_s = std::numeric_limits<double>::infinity();
    for (int run = 0; run <= kMeasuredRuns; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      device.workers().parallel_for(
          matmul.tiles(), [&](std::int64_t tile, int worker) { matmul.run_tile(tile, worker); });
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (run > 0) best_s = std::min(best_s, elapsed.count());
    }
    return flops_ / best_s;
  }

 private:
  Matrix make(CpuDevice& device, Dtype dtype, std::int64_t rows, std::int64_t cols) {
    memory_.push_back(device.allocate("matmul measurement", rows * cols * bytes_of(dtype)));
    const Matrix matrix = Matrix::dense(memory_.back().data(), dtype, rows, cols);
    fill_random(matrix);
    return matrix;
  }
  cpu::Factor make(CpuDevice& device, Dtype dtype, std::int64_t rows, std::int64_t cols,
                   cpu::Layout layout) {
    if (layout == cpu::Layout::transposed) std::swap(rows, cols);
    return {make(device, dtype, rows, cols), layout};
  }

  std::vector<DeviceBuffer> memory_;
  cpu::Product product_;
  double flops_ = 0;
};

std::int64_t buffer_bytes(std::int64_t bytes) { return round_up(bytes, Device::kAlignmentBytes); }

}  // namespace

std::int64_t cpu_ops_scratch_bytes(const CpuOpsLimits& limits, int worker_slots) {
  return buffer_bytes(cpu::matmul_scratch_bytes(limits) * worker_slots) +
         buffer_bytes(cpu::attention_scratch_bytes(limits) * worker_slots) +
         buffer_bytes(cpu::attention_sums_bytes(limits, worker_slots));
}

void attach_cpu_ops(CpuDevice& device, Isa isa, const CpuOpsLimits& limits,
                    Dtype default_arithmetic, std::vector<MatmulChoice> choices) {
  cpu::limit_library_isa(isa);
  cpu::attach_op_state(device, std::make_shared<cpu::MatmulState>(
                                   device, isa, limits, default_arithmetic, std::move(choices)));
}

void limit_matmul_library(Isa isa) { cpu::limit_library_isa(isa); }

std::vector<MatmulChoice> measure_matmuls(CpuDevice& device, std::span<const MatmulShape> shapes,
                                          Dtype operand_dtype, const Dtype* forced) {
  cpu::MatmulState& state = cpu::matmul_state(device);
  std::vector<MatmulChoice> choices;
  for (const MatmulShape& shape : shapes) {
    const MeasuredProduct product(device, shape, operand_dtype);
    MatmulChoice best = {.kind = shape.kind, .n = shape.n, .k = shape.k, .arithmetic = Dtype::f32};
    for (const Dtype candidate : {Dtype::f32, Dtype::bf16}) {
      const bool usable = state.arithmetic(operand_dtype, candidate) == candidate;
      if (!usable || (forced != nullptr && candidate != state.arithmetic(operand_dtype, *forced))) {
        continue;
      }
      const double flops_per_s = product.flops_per_s(device, candidate);
      if (flops_per_s > best.flops_per_s) {
        best.arithmetic = candidate;
        best.flops_per_s = flops_per_s;
      }
    }
    choices.push_back(best);
  }
  return choices;
}

void set_matmul_choices(CpuDevice& device, std::vector<MatmulChoice> choices,
                        Dtype default_arithmetic) {
  cpu::MatmulState& state = cpu::matmul_state(device);
  state.choices = std::move(choices);
  state.default_arithmetic = default_arithmetic;
}

bool multiplies_bf16(CpuDevice& device) {
  return cpu::matmul_state(device).gemms.multiplies_bf16();
}

std::string matmul_library() { return cpu::library_description(); }

}  // namespace strata::ops
