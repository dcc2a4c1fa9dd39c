#include "optim_cpu/memory_floor.h"

#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa_select.h"

namespace strata::optim {

void touch_state(const State& state, Isa isa) {
  select(isa, scalar::kTouchState, avx2::kTouchState, avx512::kTouchState)(state, 0);
}

}  // namespace strata::optim
