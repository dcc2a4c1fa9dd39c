// The measurements that MachineRates are made of, one by one. Each takes memory for as long as it
// runs, no more of it than the plan has room for beyond what is held, so that no peak rises; where
// that is too little for a measurement the rate is 0, which is "not known".
#pragma once

#include <chrono>
#include <optional>

#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"
#include "io/storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
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
std::int64_t room_in(const RunSetup& setup, offload::Tier tier, Device& device);

// The arithmetic that --matmul-dtype asks for. Throws ConfigError where the device does not have
// it.
std::optional<Dtype> forced_arithmetic(const RunSetup& setup, CpuDevice& device);

// Elements of this rank's state that a step updates, wherever it is: what a cache may hold from one
// step to the next.
std::int64_t updated_elements(const offload::Plan& plan);

// The cores' own, in memory that they work in: of a cpu device the device's, beside a GPU the
// host's. The rates of MachineRates with these names.
class CoreMeasurement {
 public:
  // All must outlive it.
  CoreMeasurement(const RunSetup& setup, Device& device, WorkerSet& workers)
      : setup_(setup), device_(device), workers_(workers) {}

  // Copies by all workers, and by one thread.
  double memory() const;
  double core_memory() const;
  double checksums() const;
  // Updates of a state in the run's formats.
  double optimizer() const;

 private:
  class Memory;
  std::int64_t copied_tiles() const;
  std::int64_t tiles_of(std::int64_t at_once_bytes, std::int64_t tile_bytes) const;

  const RunSetup& setup_;
  Device& device_;
  WorkerSet& workers_;
};

// Writes, then writes and reads at once, then reads real data (extents that were never written
// read without the drive), a few requests at a time for each drive, as the streams do; and reads
// beside workers that are all busy, whose work that takes longer then tells what I/O costs them.
// Overwrites the start of `storage`: measuring_bytes() in all.
DriveRates measure_drives(const RunSetup& setup, Device& device, WorkerSet& workers,
                          io::Storage& storage);

// All-gathers, of the slowest rank. Collective.
NetworkRates measure_network(const RunSetup& setup, Device& device, comm::Communicator& comm);

// Of a GPU: copies between pinned and device memory, each way and both at once, and within the
// device. What its products reach is the caller's to add.
GpuRates measure_gpu_links(const RunSetup& setup, Device& device);
// Its products at the shapes of the model, in the precision of the run; how fast only for training.
std::vector<ops::MatmulChoice> measure_gpu_matmuls(const RunSetup& setup, Device& device);

}  // namespace strata::engine
