// Whether the state that the plan keeps on NVMe has a place on disk; asked by `plan` and `train`
// before anything is created.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/stored_run.h"
#include "engine/plan/run_setup.h"
#include "engine/tools/store_standing.h"

namespace strata::engine {

struct NvmeDirectory {
  std::string path;
  std::optional<std::int64_t> free_bytes;  // absent: not looked at
  LeftOver left;                           // looked for by rank 0
};

struct NvmeSpace {
  std::vector<NvmeDirectory> directories;  // of --nvme, or the folder of --run; empty: neither
  std::int64_t needed_bytes = 0;           // in all of them, of all ranks of this host
};

// Throws ConfigError naming the option when a directory cannot be used or all together have too
// little space. A folder of --run that is not there yet is judged by the nearest parent that is.
NvmeSpace check_nvme_space(const RunSetup& setup);

// Of a new store, made beside one whose `dead` space is given back before. Throws ConfigError
// naming the option, and what is needed and free, when there is too little. Changes nothing.
void check_space_beside(const RunSetup& setup, const std::vector<DeadSpace>& dead);

// "DIR: 2 stale stores, 12 GiB; strata gc DIR reclaims the space", a line for each directory that
// has some.
std::string left_stores_text(const std::vector<NvmeDirectory>& directories);

}  // namespace strata::engine
