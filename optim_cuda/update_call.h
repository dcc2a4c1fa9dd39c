// UpdateCall: one launch of the update, as its kernel takes it.
#pragma once

#include <cstdint>

#include "optim_cpu/step_constants.h"

namespace strata::optim {

// What differs between segments of UpdateConstants.
struct SegmentConstants {
  std::int32_t last;  // element of the call, one past
  float coupled_decay;
  float decoupled_decay;
  float step_size;
  bool frozen;
};

// Moments in int8 lie in blocks, each its codes and behind them its scales.
struct Int8Blocks {
  std::int64_t elements;
  std::int64_t bytes;  // from one to the next
};

struct UpdateCall {
  static constexpr int kSegmentsMax = 64;

  Method method;
  State state;  // in int8 with the moments of the block in which it begins
  Int8Blocks blocks;
  std::int32_t place_in_block;
  UpdateConstants constants;  // those of segments stand there
  SegmentConstants segments[kSegmentsMax];
  int segment_count;
  std::int32_t* left_domain;
};

}  // namespace strata::optim
