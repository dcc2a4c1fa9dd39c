// StepRecord: what one step did, as the log, the progress line and the summary show it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "io/storage.h"
#include "offload/traffic.h"

namespace strata::engine {

// NVMe bytes of this rank since the start of the run.
struct NvmeSums {
  offload::Traffic moved;
  std::vector<io::StorageTraffic> devices;  // in the order of --nvme
};

struct StepRecord {
  std::int64_t step = 0;  // from 1; 0: before training (validation only)
  double epoch = 0;       // epochs of data seen, with fraction
  double loss = 0;        // nats per target, mean over the whole step, all ranks; NaN without any
  std::optional<double> val_loss;
  double lr = 0;
  std::optional<double> grad_norm;  // absent when nothing computes it
  std::int64_t tokens = 0;          // seen by all ranks since the start of the run, no padding
  std::int64_t targets = 0;         // of this step, all ranks: tokens with a loss
  double padding = 0;               // share of the rows that this step computed
  double tokens_per_s = 0;
  double mfu = 0;  // share of the measured matmul peak
  double step_s = 0;
  double cpu_s = 0;                    // processor time of this rank's threads in the step
  double bound_s = 0;                  // the bound of this step; 0: not known
  std::int64_t device_peak_bytes = 0;  // of this rank, as the others are
  std::int64_t host_peak_bytes = 0;
  offload::Traffic traffic;                    // of this step and its update
  std::int64_t commit_written_bytes = 0;       // by a commit made during this step
  const NvmeSums* nvme_sums = nullptr;         // null: not known
  std::optional<std::int64_t> committed_step;  // the newest on all ranks, when the step ended
  bool skipped = false;                        // no update: no targets, or --on-nonfinite skip
};

}  // namespace strata::engine
