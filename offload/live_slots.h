// LiveSlots: which slot of each unit's shard holds its lasting state, and whether a commit, durable
// or in the making, rests on it. What is protected is not overwritten: an update goes to the other
// slot, its target, which is live once the update has ended.
//
//   free ──protect_all()──▶ protected ──end_update(): the other slot is live──▶ free
//    └──end_update(): live stays──▶ free
//
// A shard with one slot has it live always. Thread contract: a unit's updates follow one another,
// and none is between its first write and end_update() during protect_all() or adopt(); otherwise
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "offload/plan.h"

namespace strata::offload {

class LiveSlots {
 public:
  // Slot 0 of every unit, free.
  explicit LiveSlots(const Plan& plan);

  int live(int unit) const;
  bool is_protected(int unit) const;
  // Where the writes of an update go.
  int target(int unit) const;

  void end_update(int unit);
  void protect_all();

  // Of every unit, as a commit has them.
  void fill(std::span<std::uint8_t> live) const;
  // The reverse: protected.
  void adopt(std::span<const std::uint8_t> live);

 private:
  struct Unit {
    int slots = 1;
    std::atomic<int> live{0};
    std::atomic<bool> is_protected{false};
  };
  const Unit& at(int unit) const { return units_[static_cast<std::size_t>(unit)]; }
  Unit& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }

  std::vector<Unit> units_;
};

}  // namespace strata::offload
