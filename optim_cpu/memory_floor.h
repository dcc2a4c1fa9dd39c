// The floor of update(): the same loads and stores of the same state, in the same order, without
// its arithmetic. What memory allows, to compare with.
//
// Thread contract: as update().
#pragma once

#include "optim_cpu/optimizer.h"

namespace strata::optim {

// Values stay what they are. Settings and segments play no part: all elements are visited; moment2
// where there is one.
void touch_state(const State& state, Isa isa);

}  // namespace strata::optim
