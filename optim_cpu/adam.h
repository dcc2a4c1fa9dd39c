// Adam on the CPU: pure functions on spans, one translation unit per instruction set.
//
// One defined arithmetic (docs/optimizer.md): the operations, their order and where a fused
// multiply-add happens are the same in every instruction set and in vector body and tail, so the
// bits depend on the element alone, never on length, alignment, split into chunks or --isa.
// Source of the method: Kingma & Ba 2015 (Adam), Loshchilov & Hutter 2019 (AdamW).
//
// Thread contract: no state; calls on disjoint spans may run at once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/dtype.h"
#include "kernels/base/isa.h"
#include "optim_cpu/gradient.h"
#include "optim_cpu/optimizer.h"

namespace strata::optim {

// What one step applies to every element of a group.
struct AdamStep {
  Method method = Method::adamw;
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float gradient_scale = 1;  // the clip factor
  std::int64_t step = 1;     // from 1: bias correction is computed from it, not carried along
};

// Splits of one state; all spans have the same length. Gradients are f32 or bf16 (one of the two
// pointers is null).
struct SplitState {
  bf16* weight;             // in/out: working weight
  std::int16_t* remainder;  // in/out
  float* moment1;           // in/out
  float* moment2;           // in/out
  const float* gradient_f32;
  const bf16* gradient_bf16;
  std::int64_t elements;
};

struct F32State {
  float* weight;
  float* moment1;
  float* moment2;
  const float* gradient_f32;
  const bf16* gradient_bf16;
  std::int64_t elements;
};

// Returns false when an updated master left its domain (split: |master| >= 0x7F7F8000 or not
// finite; f32: not finite) or a second moment overflowed, which would freeze its weight. All of the
// state is then written and the run must end. `isa` must be one that this machine runs. Pointers
// need the alignment of their element type only.
[[nodiscard]] bool adam_update(const AdamStep& step, const SplitState& state, Isa isa);
[[nodiscard]] bool adam_update(const AdamStep& step, const F32State& state, Isa isa);

}  // namespace strata::optim
