// `strata export RUN DIR`: the newest checkpoint of a run as a folder that other programs load: the
// model as Hugging Face has it, and with --with-optimizer a portable checkpoint to resume from
// (docs/checkpoints.md). One process reads the shards of all ranks that made the store, a block at
// a time.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Prints what it wrote; returns the exit code. Throws ConfigError for a run that is alive, has no
// checkpoint or lacks files, and for a DIR that exists; IoError, and then leaves nothing.
int run_export(const Options& options);

}  // namespace strata::engine
