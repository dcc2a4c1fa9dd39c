// Whether the state that the plan keeps on NVMe has a place on disk; asked by `plan` and `train`
// before anything is created.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/plan/run_setup.h"

namespace strata::engine {

struct NvmeSpace {
  std::string directory;                   // --nvme, or the folder of --run; empty: neither
  std::int64_t needed_bytes = 0;           // of all ranks of this host
  std::optional<std::int64_t> free_bytes;  // in the directory; absent: not looked at
};

// Throws ConfigError naming the option when the directory cannot be used or has too little space.
// A folder of --run that is not there yet is judged by the nearest parent that is.
NvmeSpace check_nvme_space(const RunSetup& setup);

}  // namespace strata::engine
