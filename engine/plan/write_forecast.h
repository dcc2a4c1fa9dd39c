// The bytes that a run will write to its drives, from the plan: what drives wear out by.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/plan/run_setup.h"

namespace strata::engine {

// Of one rank. A step is exact; a skipped one is counted as another, and the last, smaller pass of
// an evaluation as a full one. Without checkpoints by time but for the last.
struct WriteForecast {
  std::int64_t start_bytes = 0;       // the initial state, and measuring the drives
  std::int64_t step_bytes = 0;        // one step with its update
  std::int64_t evaluation_bytes = 0;  // one evaluation
  std::int64_t commit_bytes = 0;      // one checkpoint, or the mark of a stop; 0: there is none
  CheckpointInterval interval;

  // One is at the end.
  std::int64_t commits(std::int64_t steps) const;
  std::int64_t total_bytes(std::int64_t steps, std::int64_t evaluations) const {
    return start_bytes + steps * step_bytes + evaluations * evaluation_bytes +
           commits(steps) * commit_bytes;
  }
};

// What measuring the drives writes at most to a storage of this capacity.
std::int64_t measuring_bytes(std::int64_t capacity_bytes);

// A drive, and what it may be written.
struct DriveLife {
  std::string path;
  double share = 0;                  // of what a rank writes
  std::int64_t endurance_bytes = 0;  // 0: not known

  // Used up when each of `ranks` writes so much, to all drives together.
  double used(double written_bytes, int ranks) const {
    return ranks * share * written_bytes / static_cast<double>(endurance_bytes);
  }
};

// "12 GiB to NVMe in all: …", and below it a line for each drive whose endurance is known.
std::string forecast_text(const WriteForecast& forecast, std::int64_t steps,
                          std::int64_t evaluations, int ranks, std::span<const DriveLife> drives);

// `validation_samples`: of one evaluation, over all ranks; 0: there is none.
WriteForecast forecast_writes(const RunSetup& setup, std::int64_t validation_samples);

}  // namespace strata::engine
