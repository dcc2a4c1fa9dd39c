// The sizes of one pass, before anything is reserved: what the plan is made from, and what
// ModelPass then uses.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/model_walk.h"
#include "kernels/base/dtype.h"
#include "kernels/ops/cpu_ops.h"
#include "models/decoder_block.h"
#include "models/model_config.h"
#include "offload/plan.h"

namespace strata::engine {

struct PassShape {
  models::ModelConfig config;
  Dtype precision = Dtype::bf16;
  models::Batch micro_batch;  // the largest
  int micro_batches_max = 1;  // of a pass
  bool recompute = true;
  Purpose purpose = Purpose::training;
};

// The walk of the largest pass.
WalkShape largest_walk(const PassShape& shape, const UnitIndex& units);

// Rows' statistics of the head for one micro-batch.
std::int64_t head_rows_bytes(const PassShape& shape);
// The tables of rotary positions, cos and then sin; 0 for a model without them.
std::int64_t rotary_bytes(const models::ModelConfig& config, std::int64_t positions);
// Scratch that block backward and head use in turn.
std::int64_t workspace_bytes(const PassShape& shape);

// Of every activation record, by its number (model_walk.h).
std::vector<std::int64_t> record_bytes(const PassShape& shape);
// Device memory of a pass besides records, weights and gradients.
std::vector<offload::PlannedBuffer> pass_buffers(const PassShape& shape);

inline constexpr const char* kRotaryTag = "rotary tables";

// Every linear layer of the model, for scratch sizes and for choosing their arithmetic.
std::vector<ops::MatmulShape> matmul_shapes(const PassShape& shape);

}  // namespace strata::engine
