// The measurements that MachineRates are made of, one by one. Each takes memory for as long as it
// runs, no more of it than the plan has room for beyond what is held, so that no peak rises; where
// that is too little for a measurement the rate is 0, which is "not known".
#pragma once

#include <chrono>

#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"
#include "io/storage.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// What may be held of a tier for a moment without raising the peak above the plan.
std::int64_t room_in(const RunSetup& setup, offload::Tier tier, CpuDevice& device);

// Of all workers: the rates of MachineRates with these names.
double measure_memory(const RunSetup& setup, CpuDevice& device);
double measure_checksums(const RunSetup& setup, CpuDevice& device);
// Updates of a state in the run's formats.
double measure_optimizer(const RunSetup& setup, CpuDevice& device);

// Writes, then writes and reads at once, then reads real data (extents that were never written
// read without the drive), a few requests at a time for each drive, as the streams do. Overwrites
// the start of `storage`: measuring_bytes() in all.
DriveRates measure_drives(const RunSetup& setup, CpuDevice& device, io::Storage& storage);

// All-gathers, of the slowest rank. Collective.
NetworkRates measure_network(const RunSetup& setup, CpuDevice& device, comm::Communicator& comm);

}  // namespace strata::engine
