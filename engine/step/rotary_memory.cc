#include "engine/step/rotary_memory.h"

#include <span>

#include "engine/plan/pass_sizes.h"
#include "models/rotary_tables.h"

namespace strata::engine {

RotaryMemory::RotaryMemory(const models::ModelConfig& config, std::int64_t positions,
                           const char* tag, Device& device, Stream& stream)
    : memory_(device.allocate(tag, rotary_bytes(config, positions))),
      host_(device.allocate_pinned(tag, rotary_bytes(config, positions))) {
  if (!config.rotary) return;
  const std::int64_t elements = positions * config.head_dim / 2;
  const std::span tables(host_.as<float>(), static_cast<std::size_t>(2 * elements));
  models::fill_rotary_tables(*config.rotary, tables.first(tables.size() / 2),
                             tables.last(tables.size() / 2));
  stream.copy(memory_.data(), host_.data(), rotary_bytes(config, positions));
  stream.synchronize();  // the owner's constructor may throw next
  const auto* const cos = reinterpret_cast<const float*>(memory_.data());
  tables_ = {cos, cos + elements, positions, config.head_dim};
}

}  // namespace strata::engine
