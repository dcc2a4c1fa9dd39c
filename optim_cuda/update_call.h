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

struct UpdateCall {
  static constexpr int kSegmentsMax = 64;

  Method method;
  State state;
  UpdateConstants constants;  // those of segments stand there
  SegmentConstants segments[kSegmentsMax];
  int segment_count;
  std::int32_t* left_domain;
};

}  // namespace strata::optim
