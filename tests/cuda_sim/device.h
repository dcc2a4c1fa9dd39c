// What tests set of the simulated machine.
#pragma once

namespace strata::cuda_sim {

void set_devices(int count);     // that are visible; 1 at first
void set_capability(int major);  // of all of them; 9 at first

}  // namespace strata::cuda_sim
