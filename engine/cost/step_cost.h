// StepCost: what a step asks of every resource, phase by phase, and the bound that follows: the
// shortest time that a step could take on this machine.
//
//   bound = Σ over phases of the longest resource in the phase, less what can move between phases
//
// The phases are forward and backward: with a deferred optimizer the norm is a barrier between
// them. Resources:
//   gpu          compute, where the device is one, updates of state that is all there, with the
//   sums
//                and norms of its gradients, and copies of weights to where they are gathered
//   workers      compute on the cpu device, where --threads gives it a part of the cores
//   cores        as one resource, all that the rank may use: on the cpu device compute; and always
//                the optimizer, gradients, checksums, copies and what I/O takes from them
//   to_device,
//   from_device  PCIe, both ways at once; on the cpu device copies by the cores, so 0
//   nvme         reads and writes share it (DriveRates)
//   network      what other ranks send
// Recompute is part of backward and counted apart, for it is no useful work. A rate that is not
// known (0) makes its work cost nothing. docs/performance.md explains it.
#pragma once

#include <array>
#include <cstdint>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

enum class Resource : std::uint8_t { gpu, workers, cores, to_device, from_device, nvme, network };
inline constexpr int kResources = 7;
const char* name_of(Resource resource);

// What the cores do, in seconds of all of them.
enum class CoreWork : std::uint8_t {
  matmul,
  attention,
  elementwise,
  recompute,  // of all three kinds
  optimizer,
  gradients,  // sums of contributions, the norm, rounding
  checksums,
  copies,
  io
};
inline constexpr int kCoreWorks = 9;
const char* name_of(CoreWork work);

struct PhaseCost {
  std::array<double, kResources> seconds{};
  std::array<double, kCoreWorks> cores{};  // sums up to seconds[cores]
  double& operator[](Resource r) { return seconds[static_cast<std::size_t>(r)]; }
  double operator[](Resource r) const { return seconds[static_cast<std::size_t>(r)]; }
  double operator[](CoreWork w) const { return cores[static_cast<std::size_t>(w)]; }
  // Adds it to the cores' too.
  void add(CoreWork work, double work_s);
  Resource longest() const;
  double bound_s() const { return (*this)[longest()]; }
};

struct StepCost {
  std::array<PhaseCost, offload::kPhases> phases;
  // By how much the longest resources of both phases, summed, exceed the bound, because work can
  // lie in the other phase: what is read ahead, written late or otherwise on its way at a turn
  // between phases, as much as staging buffers and the device's slots hold. 0 where one resource is
  // the longest of both.
  double moved_s = 0;
  double bound_s() const { return phases[0].bound_s() + phases[1].bound_s() - moved_s; }
  Resource limit() const;  // the one that most of the bound is spent on
};

// `rows_share`: of the step's full rows those that are computed (1 without padding); what moves by
// units does not depend on it, and attention, whose work grows with the square of a document's
// length, is counted by the share's square, the least that it can be; with several documents in a
// sequence (--pack) that is next to nothing, and not counted. Allocates nothing.
StepCost step_cost(const RunSetup& setup, const MachineRates& rates, const ComputeCost& compute,
                   double rows_share = 1);

// Floating-point operations of this rank's step with full sequences; no recompute.
double useful_flops(const RunSetup& setup);

}  // namespace strata::engine
