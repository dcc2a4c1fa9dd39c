// RecordSchedule: how activation records move between the device and their tier, known before the
// first step.
//
// A pass walks through its micro-batches in a fixed order. Each *turn* of the walk opens a few
// records at once (a block's input, its output, …), each read, written or both. On the device the
// records share a small set of slots. For every access the schedule says which slot it uses,
// whether the record must be loaded first (it is not in a slot), and whether what it wrote must be
// stored (it will be read again after its slot was given away). A record that is consumed while it
// is still in a slot never moves. Replacement: the record needed again last (Belady 1966). Pure
// function; the plan counts traffic with it and the ActivationStore executes it.
//
// Slots are of one or two sizes: records of at most a quarter of the largest one's bytes have slots
// of their own, so that what is small does not take the room of what is large.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace strata::offload {

struct RecordAccess {
  int turn = 0;  // increasing; accesses of one turn are open together
  int record = 0;
  bool read = false;  // the contents matter
  bool write = false;
};

struct ScheduledAccess {
  RecordAccess access;
  int slot = 0;
  bool load = false;
  bool store = false;
};

struct RecordSlots {
  // The slots of a size: the next `count` ones, of `slot_bytes` each.
  struct Group {
    std::int64_t slot_bytes = 0;  // whole pages
    int count = 0;
  };
  std::array<Group, 2> groups;         // of large records, and of small ones
  std::vector<std::uint8_t> group_of;  // per record

  int count() const { return groups[0].count + groups[1].count; }
  std::int64_t slot_bytes(int slot) const;
  std::int64_t bytes() const;  // of all of them
};

// As few as `walk` can run with, and `spare` more of each size. `record_bytes`: of every record.
RecordSlots plan_record_slots(std::span<const RecordAccess> walk,
                              std::span<const std::int64_t> record_bytes, int lookahead, int spare);

// `lookahead`: loads may start this many turns early, so slots used within them are not replaced.
// Throws nothing; too few slots is a programmer error (see plan_record_slots).
std::vector<ScheduledAccess> schedule_records(std::span<const RecordAccess> walk,
                                              const RecordSlots& slots, int lookahead);

}  // namespace strata::offload
