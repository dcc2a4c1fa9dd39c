// DecodePass: the model on one sequence that grows, for inference: each call takes the tokens that
// come next, visits every unit once for each piece of them, and gives the logits of the token after
// them. Keys and values of the tokens so far stay in a cache in device memory.
//
//   restart ─▶ 0 tokens ──next_logits(n tokens)──▶ n tokens ──next_logits(1 token)──▶ n + 1 …
//
// Weights come through the same streamer, in the same order, as those of an evaluation.
// Reserves what decode_buffers() says, at construction. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/decode_sizes.h"
#include "engine/plan/model_walk.h"
#include "engine/step/rotary_memory.h"
#include "kernels/device/device.h"
#include "models/decoder_block.h"
#include "models/output_head.h"
#include "models/unit_spec.h"
#include "offload/plan.h"
#include "offload/weight_streamer.h"

namespace strata::engine {

class DecodePass {
 public:
  // All references must outlive it.
  DecodePass(const DecodeShape& shape, const std::vector<models::UnitSpec>& units,
             const offload::Plan& plan, Device& device, Stream& compute,
             offload::WeightStreamer& weights);

  // Tokens that a sequence has room for.
  std::int64_t positions() const { return shape_.positions; }

  // Forgets the sequence.
  void restart() { past_ = 0; }

  // Takes at least one token, in all no more than positions() since restart(). Logits (V) of the
  // token after them, valid until the next call. `updates` are applied as units are first leased.
  std::span<const float> next_logits(std::span<const std::int32_t> tokens,
                                     offload::PendingUpdates* updates);

 private:
  void run(std::span<const std::int32_t> piece, offload::PendingUpdates* updates);
  void upload(std::span<const std::int32_t> piece);
  void embed(std::int64_t rows);
  void embed_rows(int table, const std::int32_t* ids, ops::Into into, std::int64_t rows);
  const std::byte* blocks(std::int64_t rows);
  void head(const std::byte* last_row);
  ops::KvCache layer_cache(std::int64_t layer) const;

  DecodeShape shape_;
  const std::vector<models::UnitSpec>& units_;
  UnitIndex index_;
  std::vector<offload::ScheduledUse> uses_;
  Stream& compute_;
  offload::WeightStreamer& weights_;
  DeviceBuffer cache_;  // per layer k, then v
  DeviceBuffer buffer_;
  DecodeMemory memory_;
  PinnedBuffer host_;
  RotaryMemory rotary_;
  models::DecoderBlock block_;
  models::OutputHead head_;
  std::int64_t past_ = 0;  // tokens so far
};

}  // namespace strata::engine
