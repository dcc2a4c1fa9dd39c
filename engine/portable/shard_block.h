// ShardBlock: one block of a rank's shard as a StateFiller makes it, and its way into the tiers.
// Working weights and remainders are made from the masters; what is not given is zero, padding too.
//
// Memory: a block of each state, reserved once. Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/state_access.h"
#include "kernels/base/dtype.h"
#include "offload/state_store.h"

namespace strata::engine {

class ShardBlock {
 public:
  // Both must outlive it.
  ShardBlock(offload::StateStore& store, StateAccess& access);

  // Turns to a block of a unit's shard with so many elements.
  void begin(int unit, std::int64_t block, std::int64_t elements);

  // All zero at first.
  std::span<float> masters() { return std::span(master_).first(elements()); }
  // The first of them that split masters cannot hold, or null; also where they are not finite.
  const float* outside_of_split_masters() const;
  void write_masters();

  bool has(offload::StateKind kind) const;
  // All zero at first; in the moments' format.
  std::span<std::byte> clear_moment(offload::StateKind kind);
  // The moment that was cleared last.
  void write_moment(offload::StateKind kind);

 private:
  std::size_t elements() const { return static_cast<std::size_t>(elements_); }
  void write(offload::StateKind kind, std::span<const std::byte> values);

  offload::StateStore& store_;
  StateAccess& access_;
  int unit_ = 0;
  std::int64_t block_ = 0;
  std::int64_t elements_ = 0;
  std::vector<float> master_;
  std::vector<bf16> weight_;
  std::vector<std::int16_t> remainder_;
  std::vector<std::byte> moment_;
};

}  // namespace strata::engine
