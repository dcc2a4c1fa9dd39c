// What the ops need of a CPU device: the instruction set, the arithmetic of each matmul shape, and
// scratch memory per worker. Attach it once, before the first op.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/isa.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/attention.h"

namespace strata::ops {

enum class MatmulKind : std::uint8_t { forward, backward_input, backward_weight };

// A linear layer's matmul, by its weight's shape; `rows` is the usual M, used only to measure.
struct MatmulShape {
  MatmulKind kind;
  std::int64_t n;     // rows of w
  std::int64_t k;     // columns of w
  std::int64_t rows;  // M
};

// How a shape with bf16 operands is multiplied: as bf16, or widened to f32. Part of a run's
// arithmetic: measured once, recorded, the same on every rank and on resume.
struct MatmulChoice {
  MatmulKind kind;
  std::int64_t n;
  std::int64_t k;
  Dtype arithmetic;
  double flops_per_s = 0;  // as measured with all workers; 0: not measured
};

// Largest sizes that ops will be called with; scratch memory follows from them.
struct CpuOpsLimits {
  std::int64_t weight_rows_max = 0;  // N
  std::int64_t weight_cols_max = 0;  // K
  std::int64_t rows_max = 0;         // M = B·T
  std::int64_t tokens_max = 0;       // T, and rows of a cache, of which 256 are enough
  std::int64_t head_dim = 0;
  std::int64_t heads_per_kv_head = 1;  // H / Hkv
  PlannedAttention attention = {};     // on a cuda device
};

// Bytes of device memory that attach_cpu_ops() takes.
std::int64_t cpu_ops_scratch_bytes(const CpuOpsLimits& limits, int worker_slots);

// `choices` may be empty or partial: a shape that is not listed uses `default_arithmetic`, and so
// does attention. Where the library cannot multiply bf16 (below AVX-512) everything is multiplied
// as f32. The library's instruction set belongs to the process: an `isa` below avx512 limits it,
// and throws ConfigError when more of it is already in use. Throws OutOfBudget when scratch does
// not fit.
void attach_cpu_ops(CpuDevice& device, Isa isa, const CpuOpsLimits& limits,
                    Dtype default_arithmetic, std::vector<MatmulChoice> choices);

// The part of it that settles the instruction set of the library that multiplies, which
// matmul_library() names.
void limit_matmul_library(Isa isa);

// Measures both arithmetics on real numbers for each shape, or a part of it large enough to tell
// (about 20 ms each); returns the faster. Needs attach_cpu_ops() first, and device memory for the
// operands while it runs. With `forced`, measures only that one.
std::vector<MatmulChoice> measure_matmuls(CpuDevice& device, std::span<const MatmulShape> shapes,
                                          Dtype operand_dtype, const Dtype* forced);

// Replaces the table and the arithmetic of everything it does not list, before the first op of a
// run.
void set_matmul_choices(CpuDevice& device, std::vector<MatmulChoice> choices,
                        Dtype default_arithmetic);

// Whether bf16 operands can be multiplied as bf16 here; otherwise everything is f32.
bool multiplies_bf16(CpuDevice& device);

// Name and version of the library that multiplies, and the instruction set it uses.
std::string matmul_library();

}  // namespace strata::ops
