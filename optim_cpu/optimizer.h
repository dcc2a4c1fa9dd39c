// One step of the optimizer on a piece of training state in host memory.
//
// One defined arithmetic (docs/optimizer.md): the operations, their order and where a fused
// multiply-add happens are the same in every instruction set and in vector body and tail, so the
// bits depend on the element (with moments in int8, on its block of 256) alone: never on length,
// alignment, split into chunks or --isa.
// Sources: Kingma & Ba 2015 (Adam), Loshchilov & Hutter 2019 (AdamW), Chen et al. 2023 (Lion),
// Dettmers et al. 2022 (8-bit moments).
//
// Thread contract: no state; calls on disjoint elements may run at once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/dtype.h"
#include "kernels/base/isa.h"

namespace strata::optim {

// adamw, lion: decoupled weight decay; adam: weight decay is added to the gradient (L2).
enum class Method : std::uint8_t { adamw, adam, lion };

// Elements of one call where a state is divided over workers. Streams start anew with each call,
// which costs some 3 % at a quarter of this.
inline constexpr std::int64_t kTileElements = 1 << 16;

// What one step applies to all elements.
struct StepSettings {
  Method method = Method::adamw;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;     // not lion
  float gradient_scale = 1;  // the clip factor
  std::int64_t step = 1;     // from 1: bias correction is computed from it, not carried along
  std::uint64_t seed = 0;    // of stochastic rounding (moments in bf16, int8), with the step
};

// Elements from the end of the segment before (or 0) to `last` have these settings.
struct Segment {
  std::int64_t last = 0;
  float learning_rate = 0;
  float weight_decay = 0;
  bool frozen = false;  // nothing is read or written
};

struct Moment {
  void* values = nullptr;   // f32, bf16 or 8-bit codes
  float* scales = nullptr;  // int8: one per kScaleElements
};

// Pieces of one shard, all of the same elements; with moments in int8 they start and end where a
// scale does. Pointers need the alignment of their element type only.
struct State {
  void* weight = nullptr;             // in/out: bf16, or f32 where there is no remainder
  std::int16_t* remainder = nullptr;  // in/out: of a split master; null: f32 masters
  MomentFormat moments = MomentFormat::f32;
  Moment moment1;  // in/out
  Moment moment2;  // in/out; lion has none
  const void* gradient = nullptr;
  Dtype gradient_dtype = Dtype::f32;
  std::int64_t elements = 0;
  // The first element's place in the unsharded unit, and the unit: with seed and step they key
  // stochastic rounding.
  std::int64_t first_element = 0;
  std::uint64_t unit = 0;
};

// The last segment ends at `state.elements`. Returns false when an updated master left its domain
// (split: |master| >= 0x7F7F8000 or not finite; f32: not finite) or a second moment overflowed,
// which would freeze its weight. All of the state is then written and the run must end. `isa` must
// be one that this machine runs.
[[nodiscard]] bool update(const StepSettings& settings, std::span<const Segment> segments,
                          const State& state, Isa isa);

}  // namespace strata::optim
