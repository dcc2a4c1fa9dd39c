// Replaces masters of a trainer on one rank, as an update would.
#pragma once

#include <cstdint>
#include <span>

#include "engine/step/state_access.h"
#include "engine/step/trainer.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/device/device.h"

namespace strata::test {

// As many as trainer.master(unit) has.
inline void set_master(engine::Trainer& trainer, Device& device, int unit,
                       std::span<const float> master) {
  trainer.drain();
  const std::int64_t bytes = trainer.state().plan().largest_block_bytes();
  Budget budget("memory of a test", bytes);
  const AlignedBuffer scratch(budget, "scratch", bytes);
  engine::StateAccess access(trainer.state(), device, scratch.span());
  engine::write_master(access, trainer.state(), unit, /*rank=*/0, master);
  trainer.drain();
}

}  // namespace strata::test
