// RotaryMemory: the tables of rotary positions on the device, for those models that have them.
#pragma once

#include <cstdint>

#include "kernels/device/device.h"
#include "kernels/ops/rotary.h"
#include "models/model_config.h"

namespace strata::engine {

class RotaryMemory {
 public:
  // Of positions 0 … positions - 1: rotary_bytes() on the device, and as much pinned.
  RotaryMemory(const models::ModelConfig& config, std::int64_t positions, const char* tag,
               Device& device, Stream& stream);

  ops::RotaryTables tables() const { return tables_; }

 private:
  DeviceBuffer memory_;  // cos, then sin
  PinnedBuffer host_;    // where they were made
  ops::RotaryTables tables_;
};

}  // namespace strata::engine
