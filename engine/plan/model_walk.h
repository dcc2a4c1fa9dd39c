// ModelWalk: the order in which one pass visits units and activation records. The plan is made from
// it before step 1, and ModelPass does exactly it: the two are kept in step by checks on every
// access.
//
// Forward:  learned positions, token chunks, blocks 0 … L-1, final norm, head over its chunks
// Backward: head over its chunks again, final norm, blocks L-1 … 0, then the embeddings' gradients
//           (which need no weights)
// Each unit is visited once for all micro-batches of the pass. A tied head's chunks are those of
// the token table.
//
// Records, per micro-batch: the input of every block, the output of the last block, the final
// norm's output, and the gradient of that; with `recompute` off also what the forward of every
// block saved. The gradient of a block's input takes its place. Inference keeps no input longer
// than its block: the blocks take turns with two records, and there is no gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "models/unit_spec.h"
#include "offload/record_schedule.h"

namespace strata::engine {

// Indices into the model's units.
struct UnitIndex {
  std::vector<int> token_chunks;
  int positions = -1;  // -1: the model has no learned ones
  std::vector<int> blocks;
  int final_norm = -1;
  std::vector<int> head_chunks;  // the token chunks when the head is tied
  bool tied() const { return head_chunks == token_chunks; }
  bool learned_positions() const { return positions >= 0; }
};
UnitIndex index_units(const std::vector<models::UnitSpec>& units);

// What a run does with its model. inference: it reads the weights, and trains nothing.
enum class Purpose : std::uint8_t { training, inference };

enum class WalkKind : std::uint8_t { training, evaluation, gathering };

struct WalkShape {
  int layers = 0;
  bool learned_positions = true;
  int token_chunks = 0;
  int head_chunks = 0;
  int micro_batches = 0;      // of this pass
  int micro_batches_max = 0;  // of any pass: record numbers are made with it
  bool recompute = true;
  Purpose purpose = Purpose::training;

  bool keeps_saved() const { return purpose == Purpose::training && !recompute; }
  // Records of a micro-batch that block inputs, and the last output, go to.
  int block_records() const { return purpose == Purpose::training ? layers + 1 : 2; }
};

// Record numbers. `layer` in [0, layers]: the input of block `layer`, or the last block's output.
int block_record(const WalkShape& shape, int layer, int micro_batch);
int normed_record(const WalkShape& shape, int micro_batch);   // the final norm's output
int dnormed_record(const WalkShape& shape, int micro_batch);  // and its gradient
// What the forward of block `layer` saved, where it is kept.
int saved_record(const WalkShape& shape, int layer, int micro_batch);

// Units in the order they are gathered, and how many of them belong to the forward.
struct UnitWalk {
  std::vector<int> uses;
  std::int64_t forward_uses = 0;
};
UnitWalk unit_walk(const UnitIndex& units, WalkKind kind);

struct RecordWalk {
  std::vector<offload::RecordAccess> accesses;
  int backward_turn = 0;
};
RecordWalk record_walk(const WalkShape& shape, WalkKind kind);

// Units in the order in which a training pass first gathers them: that of deferred updates.
std::vector<int> first_use_order(const UnitIndex& units);
// Units in the order in which backward completes their gradients: that of updates in backward.
std::vector<int> gradient_order(const UnitIndex& units);

}  // namespace strata::engine
