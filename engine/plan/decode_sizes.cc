#include "engine/plan/decode_sizes.h"

#include <algorithm>

#include "engine/plan/pass_sizes.h"
#include "kernels/base/bytes.h"
#include "kernels/device/device.h"

namespace strata::engine {

DecodeShape decode_shape(const models::ModelConfig& config, Dtype precision, std::int64_t positions,
                         std::int64_t rows_max) {
  return {config, precision, positions, std::min({kDecodePieceMax, rows_max, positions})};
}

DecodeMemory::DecodeMemory(models::Carver& carver, const DecodeShape& shape) {
  const std::int64_t n = shape.piece;
  const models::DecoderBlock block(shape.config, shape.precision, {1, n});
  const models::OutputHead output_head(shape.config, shape.precision, {1, 1});
  const auto take_ids = [&] {
    return reinterpret_cast<std::int32_t*>(carver.take(n * bytes_of(Dtype::f32)));
  };
  tokens = take_ids();
  positions = take_ids();
  x = carver.take_matrix(shape.precision, n, shape.config.hidden);
  y = carver.take_matrix(shape.precision, n, shape.config.hidden);
  scratch = carver.take(block.saved_bytes());
  head.normed = carver.take(output_head.normed_bytes());
  head.rows = carver.take(output_head.rows_bytes());
  logits = carver.take_f32(shape.config.vocabulary);
}

std::int64_t kv_cache_bytes(const DecodeShape& shape) {
  return shape.config.layers * 2 *
         round_up(shape.positions * shape.config.kv_channels() * bytes_of(shape.precision),
                  Device::kAlignmentBytes);
}

std::int64_t decode_memory_bytes(const DecodeShape& shape) {
  return models::layout_bytes<DecodeMemory>(shape);
}

std::int64_t decode_host_bytes(const DecodeShape& shape) {
  return std::max(2 * shape.piece, shape.config.vocabulary) * bytes_of(Dtype::f32);
}

std::vector<offload::PlannedBuffer> decode_buffers(const DecodeShape& shape) {
  using offload::Tier;
  if (shape.positions == 0) return {};
  const std::int64_t rotary = rotary_bytes(shape.config, shape.positions);
  return {{Tier::device, kKvCacheTag, kv_cache_bytes(shape)},
          {Tier::device, kDecodeTag, decode_memory_bytes(shape)},
          {Tier::device, kDecodeRotaryTag, rotary},
          {Tier::host, kDecodeTag, decode_host_bytes(shape)},
          {Tier::host, kDecodeRotaryTag, rotary}};
}

}  // namespace strata::engine
