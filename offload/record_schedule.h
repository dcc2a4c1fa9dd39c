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
#pragma once

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

// `lookahead`: loads may start this many turns early, so slots used within them are not replaced.
// Throws nothing; too few slots is a programmer error (see slots_needed).
std::vector<ScheduledAccess> schedule_records(std::span<const RecordAccess> walk, int records,
                                              int slots, int lookahead);

// The fewest slots that `walk` can run with.
int record_slots_needed(std::span<const RecordAccess> walk, int lookahead);

}  // namespace strata::offload
