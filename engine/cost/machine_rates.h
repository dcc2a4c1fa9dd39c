// MachineRates: what this machine does per second, measured at start: the matmuls of the model's
// shapes, the drive, memory. They choose the arithmetic and give the bound of a step; they never
// change what is computed once the arithmetic is chosen.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "engine/plan/recorded_arithmetic.h"
#include "engine/plan/run_setup.h"
#include "io/storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "kernels/ops/cpu_ops.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// All drives of a rank together, and what a byte costs the cores.
struct DriveRates {
  double read_bytes_per_s = 0;  // 0: no NVMe in use
  double written_bytes_per_s = 0;
  double mixed_bytes_per_s = 0;  // half of it read and half written at the same time, in sum
  // What a byte takes from cores that are busy, in seconds of one: the kernel's time, and on a
  // virtual machine what its host does with the same processors to serve the drive.
  double core_s_per_byte = 0;
  double core_s_per_byte_least = 0;  // the least that was measured: what bounds count
  bool in_use() const { return read_bytes_per_s > 0; }
  // The shortest time in which so much can be read and written: side by side or one after the
  // other, whichever is faster.
  double seconds(double read_bytes, double written_bytes) const;
};

// Between ranks, of one rank and direction.
struct NetworkRates {
  double bytes_per_s = 0;  // 0: one rank
};

// Of one GPU.
struct GpuRates {
  double flops_per_s = 0;         // what a large matmul reaches, in the run's precision
  double memory_bytes_per_s = 0;  // of the device, read and written in sum
  double to_device_bytes_per_s = 0;
  double from_device_bytes_per_s = 0;
  double both_ways_bytes_per_s = 0;  // at the same time, in sum; 0: neither slows the other down
};

struct MachineRates {
  std::vector<ops::MatmulChoice> matmuls;
  Dtype default_arithmetic = Dtype::bf16;  // of attention, and of shapes not listed
  double memory_bytes_per_s = 0;           // read and written by a parallel copy, in sum
  double core_memory_bytes_per_s = 0;      // by one core; 0: its share of that
  double optimizer_bytes_per_s = 0;        // state and gradients that an update passes over
  double checksum_bytes_per_s = 0;         // with all workers, as those above
  // Of the processors that the rank's threads may use, those that its workers take: less than 1
  // where --threads leaves some of them to the threads beside.
  double workers_share = 1;
  DriveRates nvme;
  NetworkRates network;
  std::optional<GpuRates> gpu;
  double matmul_peak_flops_per_s() const;  // of the fastest shape
};

double workers_share(const RunSetup& setup);

// arithmetic.json of a run.
nlohmann::json arithmetic_json(const RunSetup& setup, const MachineRates& rates);

// The matmul choices are rank 0's, for all ranks: those in its `recorded`, or without it the
// fastest; on a GPU there is nothing to choose. The rest is this rank's, and 0 where the plan has
// no room to measure it; `workers` do what the cores do beside a GPU, and are the cpu device's own.
// Of inference the matmuls alone. Uses device, host and NVMe space that is given back before it
// returns: call before the Trainer reserves its own. Overwrites the start of `storage` (may be
// null). Collective.
MachineRates measure_machine(const RunSetup& setup, Device& device, WorkerSet& workers,
                             io::Storage* storage, comm::Communicator& comm,
                             const RecordedArithmetic* recorded = nullptr);

}  // namespace strata::engine
