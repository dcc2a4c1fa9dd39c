#include "offload/record_schedule.h"

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"

namespace strata::offload {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// next[i]: the index of the next access to the record of access i after i.
std::vector<std::int64_t> next_accesses(std::span<const RecordAccess> walk, int records) {
  std::vector<std::int64_t> next(walk.size());
  std::vector<std::int64_t> seen(static_cast<std::size_t>(records), kNever);
  for (std::size_t i = walk.size(); i-- > 0;) {
    auto& last = seen[static_cast<std::size_t>(walk[i].record)];
    next[i] = last;
    last = static_cast<std::int64_t>(i);
  }
  return next;
}

struct Slot {
  std::int64_t last_access = -1;   // index into the walk; -1: empty
  std::int64_t dirty_access = -1;  // last write that is not stored
  int last_turn = std::numeric_limits<int>::min();
};

}  // namespace

std::vector<ScheduledAccess> schedule_records(std::span<const RecordAccess> walk, int records,
                                              int slots, int lookahead) {
  const std::vector<std::int64_t> next = next_accesses(walk, records);
  std::vector<Slot> state(static_cast<std::size_t>(slots));
  std::vector<int> slot_of(static_cast<std::size_t>(records), -1);
  std::vector<ScheduledAccess> schedule;
  schedule.reserve(walk.size());
  const auto future_of = [&](const Slot& slot) {
    return slot.last_access < 0 ? kNever : next[static_cast<std::size_t>(slot.last_access)];
  };
  for (std::size_t i = 0; i < walk.size(); ++i) {
    const RecordAccess& access = walk[i];
    int& held = slot_of[static_cast<std::size_t>(access.record)];
    const bool hit = held >= 0;
    if (!hit) {
      int chosen = -1;
      for (int s = 0; s < slots; ++s) {
        const Slot& slot = state[static_cast<std::size_t>(s)];
        if (slot.last_access >= 0 && slot.last_turn >= access.turn - lookahead) continue;
        if (chosen < 0 || future_of(slot) > future_of(state[static_cast<std::size_t>(chosen)])) {
          chosen = s;
        }
      }
      STRATA_CHECK(chosen >= 0, "{} slots are too few for turn {}", slots, access.turn);
      Slot& victim = state[static_cast<std::size_t>(chosen)];
      if (victim.last_access >= 0) {
        const std::int64_t future = future_of(victim);
        const bool read_again = future != kNever && walk[static_cast<std::size_t>(future)].read;
        if (victim.dirty_access >= 0 && read_again) {
          schedule[static_cast<std::size_t>(victim.dirty_access)].store = true;
        }
        slot_of[static_cast<std::size_t>(
            walk[static_cast<std::size_t>(victim.last_access)].record)] = -1;
      }
      victim = Slot{};
      held = chosen;
    }
    Slot& slot = state[static_cast<std::size_t>(held)];
    slot.last_access = static_cast<std::int64_t>(i);
    slot.last_turn = access.turn;
    if (access.write) slot.dirty_access = static_cast<std::int64_t>(i);
    schedule.push_back({access, held, !hit && access.read, false});
  }
  return schedule;
}

int record_slots_needed(std::span<const RecordAccess> walk, int lookahead) {
  std::int64_t most = 1;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < walk.size(); ++end) {
    while (walk[begin].turn < walk[end].turn - lookahead) ++begin;
    std::vector<int> open;
    for (std::size_t i = begin; i <= end; ++i) open.push_back(walk[i].record);
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    most = std::max(most, static_cast<std::int64_t>(open.size()));
  }
  return static_cast<int>(most);
}

}  // namespace strata::offload
