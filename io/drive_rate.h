// The bandwidth of a drive, measured where the user gave none, so that stripes can be dealt in
// proportion.
#pragma once

#include <chrono>
#include <string>

#include "io/engine_choice.h"

namespace strata::io {

// About as long as a measurement takes at most.
inline constexpr std::chrono::milliseconds kMeasuringTimeMax{1500};

// Bytes per second of a load that reads as much as it writes (as a training step about does): the
// harmonic mean of both rates. Writes up to 128 MiB to a scratch file, reads them back, direct and
// through the engine, and stops early on a slow drive. Returns 0 when there is too little space to
// try. Throws IoError when the drive fails.
double measure_drive_rate(const std::string& directory, const EngineOptions& options);

}  // namespace strata::io
