// The inner loops that are compiled once per instruction set (isa/*.cc), as tables of functions.
//
// Each runs on the calling thread, on the rows, columns or elements it is given; tiling over the
// workers, checks and annotations are the callers' (cpu/*.cc). All give the same bits in every
// instruction set. Pointers are to the elements of the dtype that indexes the table.
#pragma once

#include <cstdint>

#include "kernels/base/isa.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

// A function per dtype: by_dtype[dtype].
template <typename Function>
struct ByDtype {
  Function f32;
  Function bf16;
  constexpr const Function& operator[](Dtype dtype) const {
    return dtype == Dtype::f32 ? f32 : bf16;
  }
};

// On contiguous elements; outputs may be inputs.
struct ElementwiseKernels {
  using Unary = void (*)(void* y, const void* x, std::int64_t elements);
  using Binary = void (*)(void* y, const void* a, const void* b, std::int64_t elements);
  using Accumulate = void (*)(float* y, const void* x, std::int64_t elements);
  using SwigluBackward = void (*)(void* dgate, void* dup, const void* dy, const void* gate,
                                  const void* up, std::int64_t elements);

  ByDtype<Unary> gelu_forward;     // (y, x)
  ByDtype<Binary> gelu_backward;   // (dx, dy, x)
  ByDtype<Binary> swiglu_forward;  // (y, gate, up)
  ByDtype<SwigluBackward> swiglu_backward;
  ByDtype<Binary> add;             // y = a + b
  ByDtype<Accumulate> accumulate;  // y += x, by the dtype of x
  Unary widen;                     // y f32 = x bf16, exact
  Unary round;                     // y bf16 = x f32, to nearest even
};

struct LayerNormForward {
  Matrix y;
  float* mean;
  float* rstd;
  Matrix x;
  const void* weight;
  const void* bias;
  float epsilon;
};

struct LayerNormBackward {
  Matrix dx;
  Into dx_into;
  float* dweight;
  float* dbias;
  Into parameters;
  Matrix dy;
  Matrix x;
  const void* weight;
  const float* mean;
  const float* rstd;
};

struct LayerNormKernels {
  using Forward = void (*)(const LayerNormForward&, std::int64_t row_begin, std::int64_t row_end);
  using BackwardInput = void (*)(const LayerNormBackward&, std::int64_t row_begin,
                                 std::int64_t row_end);
  using BackwardParameters = void (*)(const LayerNormBackward&, std::int64_t column_begin,
                                      std::int64_t column_end);

  ByDtype<Forward> forward;                                  // by the dtype of x
  ByDtype<ByDtype<BackwardInput>> backward_input;            // [dtype of x][dtype of dy]
  ByDtype<ByDtype<BackwardParameters>> backward_parameters;  // the same; every row
};

struct RmsNormForward {
  Matrix y;
  float* rstd;
  Matrix x;
  Matrix weight;
  float epsilon;
};

struct RmsNormBackward {
  Matrix dx;
  Into dx_into;
  Matrix dweight;
  Into dweight_into;
  Matrix dy;
  Matrix x;
  Matrix weight;
  const float* rstd;
};

struct RmsNormKernels {
  using Forward = void (*)(const RmsNormForward&, std::int64_t row_begin, std::int64_t row_end);
  using BackwardInput = void (*)(const RmsNormBackward&, std::int64_t row_begin,
                                 std::int64_t row_end);
  using BackwardWeight = void (*)(const RmsNormBackward&, std::int64_t column_begin,
                                  std::int64_t column_end);

  ByDtype<Forward> forward;                          // by the dtype of x
  ByDtype<ByDtype<BackwardInput>> backward_input;    // [dtype of x][dtype of dy]
  ByDtype<ByDtype<BackwardWeight>> backward_weight;  // the same; columns of the weight, every row
};

enum class Turn : std::uint8_t { forward, back };

struct Rotary {
  Matrix x;
  const float* cos;  // (table_rows, head_dim / 2)
  const float* sin;
  std::int64_t table_rows;
  std::int64_t head_dim;
  const std::int32_t* positions;
  Turn turn;
};

struct RotaryKernels {
  using Rotate = void (*)(const Rotary&, std::int64_t row_begin, std::int64_t row_end);

  ByDtype<Rotate> rotate;  // by the dtype of x
};

struct SoftmaxUpdate {
  float* max;
  float* sum_exp;
  float* target_logit;
  Matrix logits;
  const std::int32_t* targets;
  std::int64_t first_id;
  std::int32_t ignored_target;
};

struct CrossEntropyBackward {
  Matrix dlogits;
  Matrix logits;
  const float* max;
  const float* sum_exp;
  const std::int32_t* targets;
  std::int64_t first_id;
  std::int32_t ignored_target;
  float scale;
};

struct CrossEntropyKernels {
  using Update = void (*)(const SoftmaxUpdate&, std::int64_t row_begin, std::int64_t row_end);
  using Backward = void (*)(const CrossEntropyBackward&, std::int64_t row_begin,
                            std::int64_t row_end);

  Update update;
  ByDtype<Backward> backward;  // by the dtype of dlogits
};

struct KernelTable {
  const ElementwiseKernels& elementwise;
  const LayerNormKernels& layernorm;
  const RmsNormKernels& rmsnorm;
  const RotaryKernels& rotary;
  const CrossEntropyKernels& cross_entropy;
};

const KernelTable& kernel_table(Isa isa);

// What isa/*.cc define, one namespace per instruction set.
#define STRATA_DECLARE_KERNELS(isa)                       \
  namespace isa {                                         \
  extern const ElementwiseKernels elementwise_kernels;    \
  extern const LayerNormKernels layernorm_kernels;        \
  extern const RmsNormKernels rmsnorm_kernels;            \
  extern const RotaryKernels rotary_kernels;              \
  extern const CrossEntropyKernels cross_entropy_kernels; \
  }
STRATA_DECLARE_KERNELS(scalar)
STRATA_DECLARE_KERNELS(avx2)
STRATA_DECLARE_KERNELS(avx512)
#undef STRATA_DECLARE_KERNELS

}  // namespace strata::ops::cpu
