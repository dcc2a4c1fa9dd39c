// The sizes of decoding: what DecodePass reserves, and so what the plan counts.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/ops/view.h"
#include "models/carver.h"
#include "models/decoder_block.h"
#include "models/model_config.h"
#include "models/output_head.h"
#include "offload/plan.h"

namespace strata::engine {

struct DecodeShape {
  models::ModelConfig config;
  Dtype precision = Dtype::bf16;
  std::int64_t positions = 0;  // P, rows of the cache: tokens of a sequence; 0: nothing is decoded
  std::int64_t piece = 0;      // the most tokens that go through the model at once
};

// Each piece of a prompt reads all weights; its activations take memory.
inline constexpr std::int64_t kDecodePieceMax = 256;
DecodeShape decode_shape(const models::ModelConfig& config, Dtype precision, std::int64_t positions,
                         std::int64_t rows_max);

// Device memory of one piece of n tokens, but for the cache and rotary tables.
struct DecodeMemory {
  DecodeMemory(models::Carver& carver, const DecodeShape& shape);

  std::int32_t* tokens;     // (n)
  std::int32_t* positions;  // (n)
  ops::Matrix x;            // (n, C): the input of a block
  ops::Matrix y;            // (n, C): its output, the next one's input
  std::byte* scratch;       // of a block
  models::HeadMemory head;  // of one row
  float* logits;            // (V)
};

std::int64_t kv_cache_bytes(const DecodeShape& shape);
std::int64_t decode_memory_bytes(const DecodeShape& shape);
// Host memory: token ids and positions of a piece, or the logits.
std::int64_t decode_host_bytes(const DecodeShape& shape);

std::vector<offload::PlannedBuffer> decode_buffers(const DecodeShape& shape);

inline constexpr const char* kKvCacheTag = "key/value cache";
inline constexpr const char* kDecodeTag = "decoding";
inline constexpr const char* kDecodeRotaryTag = "rotary for decoding";

}  // namespace strata::engine
