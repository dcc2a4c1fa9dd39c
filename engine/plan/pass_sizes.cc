#include "engine/plan/pass_sizes.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/device/device.h"
#include "models/output_head.h"

namespace strata::engine {

namespace {

models::DecoderBlock block_of(const PassShape& shape) {
  return {shape.config, shape.precision, shape.micro_batch};
}

models::OutputHead head_of(const PassShape& shape) {
  return {shape.config, shape.precision, shape.micro_batch};
}

}  // namespace

WalkShape largest_walk(const PassShape& shape, const UnitIndex& units) {
  return {.layers = static_cast<int>(shape.config.layers),
          .learned_positions = units.learned_positions(),
          .token_chunks = static_cast<int>(units.token_chunks.size()),
          .head_chunks = static_cast<int>(units.head_chunks.size()),
          .micro_batches = shape.micro_batches_max,
          .micro_batches_max = shape.micro_batches_max,
          .recompute = shape.recompute,
          .purpose = shape.purpose};
}

std::int64_t head_rows_bytes(const PassShape& shape) {
  return round_up(head_of(shape).rows_bytes(), Device::kAlignmentBytes);
}

std::int64_t rotary_bytes(const models::ModelConfig& config, std::int64_t positions) {
  return config.rotary ? positions * config.head_dim * bytes_of(Dtype::f32) : 0;
}

std::int64_t workspace_bytes(const PassShape& shape) {
  const std::int64_t head = head_of(shape).workspace_bytes();
  if (shape.purpose == Purpose::inference) return head;
  return std::max(block_of(shape).workspace_bytes(), head);
}

std::vector<std::int64_t> record_bytes(const PassShape& shape) {
  const models::OutputHead head = head_of(shape);
  const std::int64_t input =  // (B·T, C)
      shape.micro_batch.rows() * shape.config.hidden * bytes_of(shape.precision);
  std::vector<std::int64_t> bytes;
  const auto append = [&](std::int64_t each) {
    bytes.insert(bytes.end(), static_cast<std::size_t>(shape.micro_batches_max), each);
  };
  if (shape.purpose == Purpose::inference) {
    append(input);
    append(input);
    append(head.normed_bytes());
    return bytes;
  }
  for (std::int64_t layer = 0; layer <= shape.config.layers; ++layer) append(input);
  append(head.normed_bytes());
  append(head.dnormed_bytes());
  if (shape.recompute) return bytes;
  for (std::int64_t layer = 0; layer < shape.config.layers; ++layer) {
    append(block_of(shape).saved_bytes());
  }
  return bytes;
}

std::vector<offload::PlannedBuffer> pass_buffers(const PassShape& shape) {
  using offload::Tier;
  const std::int64_t rotary = rotary_bytes(shape.config, shape.micro_batch.tokens);
  return {{Tier::device, "block activations", block_of(shape).saved_bytes()},
          {Tier::device, "head statistics", shape.micro_batches_max * head_rows_bytes(shape)},
          {Tier::device, kRotaryTag, rotary},
          {Tier::host, kRotaryTag, rotary},
          {Tier::device, "compute workspace", workspace_bytes(shape)}};
}

std::vector<ops::MatmulShape> matmul_shapes(const PassShape& shape) {
  std::vector<ops::MatmulShape> shapes = block_of(shape).matmul_shapes();
  const std::vector<ops::MatmulShape> more = head_of(shape).matmul_shapes();
  shapes.insert(shapes.end(), more.begin(), more.end());
  if (shape.purpose == Purpose::inference) {
    std::erase_if(shapes, [](const ops::MatmulShape& matmul) {
      return matmul.kind != ops::MatmulKind::forward;
    });
  }
  return shapes;
}

}  // namespace strata::engine
