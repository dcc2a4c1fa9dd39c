// NvmeLedger: what a run moves to and from its drives, by kind of state and by drive, what it will
// write in all, and which share of the drives' lives (--nvme-endurance) that is.
//
// Bytes are this rank's. Shares of a life count what every rank of this host writes, as those of
// this rank: shards are of equal size. Used by one thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/step_record.h"
#include "io/volume.h"

namespace strata::engine {

// What measuring the drives moved. How much is read depends on how long that takes.
struct MeasuringTraffic {
  std::vector<io::StorageTraffic> by_directory;  // of the volume; or empty
  bool beside_volume = false;                    // in files of its own, which the volume counts not
};

class NvmeLedger {
 public:
  // `volume`: null when the plan keeps nothing on NVMe; every text is then empty.
  NvmeLedger(const RunSetup& setup, const TrainingData& data, const io::Volume* volume,
             MeasuringTraffic measuring = {});

  // The sums as of now, at an address that stays; null without a volume. Allocates nothing.
  const NvmeSums* update(const offload::Ledger& ledger);

  // Of all directories at the last update().
  io::StorageTraffic total() const;

  // "12 GiB in all: …", and below it a line for each drive whose endurance is known.
  std::string forecast_text() const;

  // Of the last update(), in a run that took `run_s`.
  std::string summary_text(double run_s) const;     // a table, each line indented and ended
  nlohmann::json summary_json(double run_s) const;  // null without a volume

 private:
  double life_share(const DriveLife& drive, double written_bytes) const;
  double life_years(const DriveLife& drive, std::int64_t written_bytes, double run_s) const;
  // The kinds of state, "measuring", and "metadata", which is all the rest: the store's headers,
  // superblocks and tables.
  struct Row {
    std::string name;
    io::StorageTraffic moved;
  };
  std::vector<Row> rows() const;

  const io::Volume* volume_;
  int ranks_;  // of this host
  std::int64_t steps_;
  std::int64_t evaluations_;
  WriteForecast forecast_;
  std::vector<DriveLife> drives_;
  MeasuringTraffic measuring_;
  NvmeSums sums_;
};

}  // namespace strata::engine
