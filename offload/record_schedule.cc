#include "offload/record_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
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

class Scheduler {
 public:
  Scheduler(std::span<const RecordAccess> walk, const RecordSlots& slots, int lookahead)
      : walk_(walk),
        slots_(slots),
        lookahead_(lookahead),
        next_(next_accesses(walk, static_cast<int>(slots.group_of.size()))),
        state_(static_cast<std::size_t>(slots.count())),
        slot_of_(slots.group_of.size(), -1) {}

  std::vector<ScheduledAccess> run() {
    schedule_.reserve(walk_.size());
    for (const RecordAccess& access : walk_) schedule(access);
    return std::move(schedule_);
  }

 private:
  void schedule(const RecordAccess& access) {
    int& held = slot_of_[static_cast<std::size_t>(access.record)];
    const bool hit = held >= 0;
    if (!hit) {
      held = replaceable(access);
      Slot& victim = slot(held);
      if (victim.last_access >= 0) give_away(victim);
      victim = Slot{};
    }
    Slot& slot = this->slot(held);
    slot.last_access = std::ssize(schedule_);
    slot.last_turn = access.turn;
    if (access.write) slot.dirty_access = slot.last_access;
    schedule_.push_back({access, held, !hit && access.read, false});
  }

  // A slot of the record's group that no turn uses which may still be running.
  int replaceable(const RecordAccess& access) const {
    const int group = slots_.group_of[static_cast<std::size_t>(access.record)];
    const int first = group == 0 ? 0 : slots_.groups[0].count;
    const int end = first + slots_.groups[static_cast<std::size_t>(group)].count;
    int chosen = -1;
    for (int s = first; s < end; ++s) {
      const Slot& slot = this->slot(s);
      if (slot.last_access >= 0 && slot.last_turn >= access.turn - lookahead_) continue;
      if (chosen < 0 || future_of(slot) > future_of(this->slot(chosen))) chosen = s;
    }
    STRATA_CHECK(chosen >= 0, "{} slots are too few for turn {}", end - first, access.turn);
    return chosen;
  }

  void give_away(const Slot& victim) {
    const std::int64_t future = future_of(victim);
    const bool read_again = future != kNever && walk_[static_cast<std::size_t>(future)].read;
    if (victim.dirty_access >= 0 && read_again) {
      schedule_[static_cast<std::size_t>(victim.dirty_access)].store = true;
    }
    const auto last = static_cast<std::size_t>(victim.last_access);
    slot_of_[static_cast<std::size_t>(walk_[last].record)] = -1;
  }

  std::int64_t future_of(const Slot& slot) const {
    return slot.last_access < 0 ? kNever : next_[static_cast<std::size_t>(slot.last_access)];
  }
  const Slot& slot(int index) const { return state_[static_cast<std::size_t>(index)]; }
  Slot& slot(int index) { return state_[static_cast<std::size_t>(index)]; }

  std::span<const RecordAccess> walk_;
  const RecordSlots& slots_;
  const int lookahead_;
  const std::vector<std::int64_t> next_;
  std::vector<Slot> state_;
  std::vector<int> slot_of_;  // per record; -1: none
  std::vector<ScheduledAccess> schedule_;
};

// Records of the group that are open in some turn and the `lookahead` before it, at most.
int most_open(std::span<const RecordAccess> walk, const RecordSlots& slots, int group,
              int lookahead) {
  std::size_t most = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < walk.size(); ++end) {
    while (walk[begin].turn < walk[end].turn - lookahead) ++begin;
    std::vector<int> open;
    for (std::size_t i = begin; i <= end; ++i) {
      const int record = walk[i].record;
      if (slots.group_of[static_cast<std::size_t>(record)] == group) open.push_back(record);
    }
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    most = std::max(most, open.size());
  }
  return static_cast<int>(most);
}

}  // namespace

std::int64_t RecordSlots::slot_bytes(int slot) const {
  return groups[slot < groups[0].count ? 0 : 1].slot_bytes;
}

std::int64_t RecordSlots::bytes() const {
  return groups[0].count * groups[0].slot_bytes + groups[1].count * groups[1].slot_bytes;
}

RecordSlots plan_record_slots(std::span<const RecordAccess> walk,
                              std::span<const std::int64_t> record_bytes, int lookahead,
                              int spare) {
  RecordSlots slots;
  const std::int64_t largest = record_bytes.empty() ? 0 : std::ranges::max(record_bytes);
  for (const std::int64_t bytes : record_bytes) {
    const bool small = 4 * bytes <= largest;
    RecordSlots::Group& group = slots.groups[small ? 1 : 0];
    group.slot_bytes = std::max(group.slot_bytes, round_up(bytes, kPageBytes));
    slots.group_of.push_back(small ? 1 : 0);
  }
  for (int g = 0; g < std::ssize(slots.groups); ++g) {
    const int most = most_open(walk, slots, g, lookahead);
    if (most > 0) slots.groups[static_cast<std::size_t>(g)].count = most + spare;
  }
  return slots;
}

std::vector<ScheduledAccess> schedule_records(std::span<const RecordAccess> walk,
                                              const RecordSlots& slots, int lookahead) {
  return Scheduler(walk, slots, lookahead).run();
}

}  // namespace strata::offload
