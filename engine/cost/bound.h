// The bound: the shortest time a step could take on this machine, as the sum over its phases
// (forward; backward; the norm is a barrier between them) of the longest resource in each.
//
// Resources: the drive (reads and writes share it), and the cores as one resource (matmuls at the
// measured rate of their shape, the optimizer and the cpu device's copies at memory speed).
// Recompute is part of backward. Not counted: elementwise passes, attention's softmax, the
// network; so the bound is lower than what a perfect program would reach.
#pragma once

#include <array>

#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

struct PhaseBound {
  double cores_s = 0;
  double nvme_s = 0;
  double seconds() const { return cores_s > nvme_s ? cores_s : nvme_s; }
};

struct StepBound {
  std::array<PhaseBound, offload::kPhases> phases;
  double flops = 0;  // useful ones of this rank: no recompute
  double seconds() const { return phases[0].seconds() + phases[1].seconds(); }
  const char* limit() const;  // "the cores" or "NVMe": what most of it is spent on
};

StepBound step_bound(const RunSetup& setup, const MachineRates& rates);

}  // namespace strata::engine
