// MachineRates: what this machine does per second, measured at start: the matmuls of the model's
// shapes, the drive, memory. They choose the arithmetic and give the bound of a step; they never
// change what is computed once the arithmetic is chosen.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "engine/plan/recorded_arithmetic.h"
#include "engine/plan/run_setup.h"
#include "io/storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu_ops.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

struct MachineRates {
  std::vector<ops::MatmulChoice> matmuls;
  Dtype default_arithmetic = Dtype::bf16;  // of attention, and of shapes not listed
  double memory_bytes_per_s = 0;           // read and written by a parallel copy, in sum
  double nvme_read_bytes_per_s = 0;        // 0: no NVMe in use
  double nvme_written_bytes_per_s = 0;
  double matmul_peak_flops_per_s() const;  // of the fastest shape
};

// arithmetic.json of a run.
nlohmann::json arithmetic_json(const RunSetup& setup, const MachineRates& rates);

// What measure_machine() writes at most to a storage of this capacity.
std::int64_t measuring_bytes(std::int64_t capacity_bytes);

// The matmul choices are rank 0's, for all ranks: those in its `recorded`, or without it the
// fastest; the rest is this rank's. Uses device, host and
// NVMe space that is given back before it returns: call before the Trainer reserves its own.
// Overwrites the start of `storage` (may be null).
MachineRates measure_machine(const RunSetup& setup, CpuDevice& device, io::Storage* storage,
                             comm::Communicator& comm,
                             const RecordedArithmetic* recorded = nullptr);

}  // namespace strata::engine
