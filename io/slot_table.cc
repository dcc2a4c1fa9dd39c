#include "io/slot_table.h"

#include <algorithm>

#include "kernels/base/annotate.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr std::uint64_t kSlotsMax = 1 << 16;  // a tag is a count of submissions and a slot

}  // namespace

SlotTable::SlotTable(int count) : slots_(static_cast<std::size_t>(count)) {
  STRATA_CHECK(count > 0 && slots_.size() <= kSlotsMax, "a queue depth of {}", count);
  free_.reserve(slots_.size());
  for (std::size_t i = slots_.size(); i-- > 0;) free_.push_back(&slots_[i]);
}

Slot& SlotTable::take() {
  Slot& slot = *free_.back();
  free_.pop_back();
  saturated_ = free_.empty();
  ++in_flight_;
  renew_tag(slot);
  return slot;
}

bool SlotTable::release(const SlotBatch& slots) {
  for (Slot* slot : slots.span()) free_.push_back(slot);
  in_flight_ -= static_cast<int>(slots.count());
  const bool enough = free_.size() >= std::max<std::size_t>(slots_.size() / 4, 1);
  const bool ended = saturated_ && enough;
  if (ended) saturated_ = false;
  return ended;
}

void SlotTable::abandon(Slot& slot) {
  slot.tag.store(0, std::memory_order_relaxed);
  --in_flight_;
}

Slot* SlotTable::take_answered(std::uint64_t tag) {
  const std::uint64_t index = tag % kSlotsMax;
  if (tag == 0 || index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  if (slot.tag.load(std::memory_order_relaxed) != tag) return nullptr;
  annotate_acquire(&slot);
  slot.tag.store(0, std::memory_order_relaxed);
  return &slot;
}

void SlotTable::renew_tag(Slot& slot) {
  const auto index = static_cast<std::uint64_t>(&slot - slots_.data());
  slot.tag.store(++slot.submissions * kSlotsMax + index, std::memory_order_relaxed);
}

Slot* SlotTable::oldest_in_flight() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.is_in_flight()) continue;
    if (oldest == nullptr || slot.started_ns < oldest->started_ns) oldest = &slot;
  }
  return oldest;
}

}  // namespace strata::io
