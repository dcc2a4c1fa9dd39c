// ComputeCost: what the layers of a model cost the device that computes them, per full micro-batch
// and by kind of work. Either measured on this machine, by running a block and the head on it, or
// derived from the rates of a machine that is described (machine_description.h).
//
// One micro-batch: setup.shape.micro_batch sequences of setup.batch.seq_len tokens, none padded.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"
#include "kernels/device/device.h"

namespace strata::engine {

// matmul: the linear layers. attention: scores, softmax and weighted sums. elementwise: all else,
// each a pass over memory.
enum class Work : std::uint8_t { matmul, attention, elementwise };
inline constexpr int kWorks = 3;
const char* name_of(Work work);

struct WorkSeconds {
  std::array<double, kWorks> of{};
  double& operator[](Work work) { return of[static_cast<std::size_t>(work)]; }
  double operator[](Work work) const { return of[static_cast<std::size_t>(work)]; }
  double total() const { return of[0] + of[1] + of[2]; }
  WorkSeconds& operator+=(const WorkSeconds& other);
  WorkSeconds operator*(double factor) const;
};

// Seconds of one micro-batch, on a cpu device with all its workers.
struct ComputeCost {
  WorkSeconds embedding_forward;  // of all its tables
  WorkSeconds block_forward;      // of one block, as the others
  WorkSeconds block_recompute;    // what backward repeats of it; 0 without recompute
  WorkSeconds block_backward;
  WorkSeconds head_forward;  // the final norm, and the softmax statistics of all chunks
  WorkSeconds head_backward;
  WorkSeconds embedding_backward;
  // By how much ops take longer on average than the times above, which are of their fastest runs:
  // what a prediction expects, and of all else that the cores do but I/O where ops are theirs, and
  // a bound does not.
  double slowdown = 1;

  // All of them, in this order.
  static constexpr int kParts = 7;
  std::array<WorkSeconds*, kParts> parts();
  std::array<const WorkSeconds*, kParts> parts() const;
};

// Runs them on the device, in memory that is given back before it returns: call before the Trainer
// reserves its own. Each op counts as its fastest of many runs. A micro-batch that would take long
// is measured by two parts of it, and what grows between them is extrapolated.
// `op_cost`: what an op counts as instead of the seconds that it took, for tests.
using OpCost = std::function<double(std::string_view op)>;
ComputeCost measure_compute(const RunSetup& setup, Device& device, const OpCost& op_cost = {});
// Of a step's micro-batches the first ones of their passes, which overwrite gradients of weights
// where others add to them; measure_compute() has the mean of both.
double overwritten_share(const RunSetup& setup);

// From FLOPs and bytes over the rates of a described machine; attention counts as matmul there.
ComputeCost derive_compute(const RunSetup& setup, const MachineRates& rates);

}  // namespace strata::engine
