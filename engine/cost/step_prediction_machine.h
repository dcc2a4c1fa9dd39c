// PredictedMachine: the machine of a prediction: its resources as servers of a Fluid, and what the
// data path does with them as tasks. Everything is at the machine's rates, for one rank.
//
// A *lane* is a thread or a stream: what is asked of it comes after what it was asked before. A
// *moment* is when some task is done. On the cpu device compute and copies are the cores'; a copy,
// made by the thread of its stream, can use one of them, I/O as many as keep the drive busy,
// everything else that the cores do as many as there are workers.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "engine/cost/fluid.h"
#include "engine/cost/machine_rates.h"
#include "engine/cost/step_cost.h"

namespace strata::engine {

using Moment = Fluid::Task;

struct Lane {
  Moment last = Fluid::kBeginning;
};

class PredictedMachine {
 public:
  PredictedMachine(const MachineRates& rates, int threads);

  // A moment of the lane's own, for run().
  Moment now(const Lane& lane) { return fluid_.add({lane.last}); }
  // The lane waits.
  void wait(Lane& lane, std::initializer_list<Moment> moments);

  // Seconds as ComputeCost has them, on the device.
  void compute(Lane& lane, double seconds);
  // Bytes that all workers read and write in sum, at the rate of memory or that of the optimizer.
  void pass_over(Lane& lane, double bytes);
  void update(Lane& lane, double bytes);
  // By the GPU, at the rate of its memory.
  void pass_over_on_device(Lane& lane, double bytes);
  void copy_to_device(Lane& lane, double bytes);
  void copy_from_device(Lane& lane, double bytes);
  void copy_in_host(Lane& lane, double bytes);
  void copy_on_device(Lane& lane, double bytes);
  // What a collective receives from other ranks.
  void receive(Lane& lane, double bytes);

  // A read that is on its way from a moment on; returns when it has arrived.
  Moment read(double bytes, std::initializer_list<Moment> after);
  // The lane waits for it and checks it.
  void check(Lane& lane, Moment arrival, double bytes);
  // The lane takes the checksums and goes on; returns when the bytes are on the drive.
  Moment write(Lane& lane, double bytes);

  // Seconds that each resource is in use up to the moments, which are asked for in order.
  struct Busy {
    double time_s = 0;
    std::array<double, kResources> busy_s{};
  };
  std::vector<Busy> run(const std::vector<Moment>& at) const;

 private:
  Fluid::Server server(Resource resource) const {
    return servers_[static_cast<std::size_t>(resource)];
  }
  void on_workers(Lane& lane, double seconds);
  void copy(Lane& lane, Resource link, double bytes);
  Moment transfer(Fluid::Queue queue, double bytes, double bytes_per_s, Moment after);

  const MachineRates& rates_;
  // As shares of all cores: the workers; one at work; and one that copies, which alone gets more of
  // the memory's rate.
  double workers_;
  double one_core_;
  double copying_core_;
  Fluid fluid_;
  std::array<Fluid::Server, kResources> servers_;
};

}  // namespace strata::engine
