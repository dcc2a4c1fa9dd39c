#include "engine/portable/shard_block.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace strata::engine {

using offload::StateKind;

ShardBlock::ShardBlock(offload::StateStore& store, StateAccess& access)
    : store_(store),
      access_(access),
      master_(static_cast<std::size_t>(store.plan().block_elements)),
      weight_(master_.size()),
      remainder_(master_.size()) {}

void ShardBlock::begin(int unit, std::int64_t block, std::int64_t elements) {
  unit_ = unit;
  block_ = block;
  elements_ = elements;
  std::ranges::fill(masters(), 0.0f);
}

const float* ShardBlock::outside_of_split_masters() const {
  constexpr auto kBound = std::bit_cast<float>(kSplitMasterBoundBits);
  const auto end = master_.begin() + elements_;
  const auto found =
      std::find_if(master_.begin(), end, [](float master) { return !(std::abs(master) < kBound); });
  return found == end ? nullptr : &*found;
}

void ShardBlock::write_masters() {
  if (store_.plan().dtypes.weights == Dtype::f32) {
    write(StateKind::weights, std::as_bytes(std::span(master_)));
    return;
  }
  for (std::size_t i = 0; i < elements(); ++i) {
    const SplitMaster split = split_master(master_[i]);
    weight_[i] = split.weight;
    remainder_[i] = split.remainder;
  }
  write(StateKind::weights, std::as_bytes(std::span(weight_)));
  write(StateKind::remainder, std::as_bytes(std::span(remainder_)));
}

bool ShardBlock::has(StateKind kind) const {
  return store_.plan().shard_bytes(store_.unit(unit_), kind) > 0;
}

std::span<std::byte> ShardBlock::clear_moment(StateKind kind) {
  const std::int64_t bytes = store_.plan().bytes_of_elements(kind, elements_);
  moment_.assign(static_cast<std::size_t>(bytes), std::byte{0});
  return moment_;
}

void ShardBlock::write_moment(StateKind kind) { write(kind, moment_); }

void ShardBlock::write(StateKind kind, std::span<const std::byte> values) {
  if (!has(kind)) return;
  const offload::Plan& plan = store_.plan();
  const std::int64_t offset = plan.bytes_of_elements(kind, block_ * plan.block_elements);
  const std::int64_t bytes = plan.bytes_of_elements(kind, elements_);
  access_.write(unit_, kind, offset, values.first(static_cast<std::size_t>(bytes)));
}

}  // namespace strata::engine
