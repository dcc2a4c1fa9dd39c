// The bandwidth of a drive, measured where the user gave none, so that stripes can be dealt in
// proportion.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "io/engine_choice.h"

namespace strata::io {

struct DriveRateOptions {
  EngineKind engine = EngineKind::uring;
  int queue_depth = 64;
  std::int64_t request_bytes_max = 1 << 20;
  std::chrono::milliseconds timeout{30000};
};

// Bytes per second of a load that reads as much as it writes (as a training step about does): the
// harmonic mean of both rates. Writes up to 128 MiB to a scratch file, reads them back, direct and
// through the engine, and stops early on a slow drive: at most about 1.2 s. Returns 0 when there is
// too little space to try. Throws IoError when the drive fails.
double measure_drive_rate(const std::string& directory, const DriveRateOptions& options);

// What a directory shares its bandwidth with: equal for two partitions of one disk.
std::string drive_of(const std::string& directory);

}  // namespace strata::io
