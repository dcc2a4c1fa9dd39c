// What `strata doctor` says of I/O: io_uring, locked memory, and each directory of --nvme.
#pragma once

#include <string>

#include "engine/tools/doctor_finding.h"
#include "io/uring_probe.h"

namespace strata::engine {

// io_uring and locked memory.
Findings examine_engines(const io::UringSupport& support);

// `nvme` is the text of --nvme; empty gives a finding that says so. Creates nothing that outlives
// the call. Throws ConfigError only for a text that is no list of directories.
Findings examine_directories(const std::string& nvme);

}  // namespace strata::engine
