// What `strata doctor` says of processors and memory.
#pragma once

#include "engine/tools/doctor_finding.h"

namespace strata::engine {

// Kernel, processors and NUMA nodes, instruction set, memory, control groups, huge pages.
Findings examine_machine();

// The transparent huge page mode in the text of /sys/kernel/mm/transparent_hugepage/enabled
// ("always [madvise] never"); empty where there is none.
std::string huge_page_mode(const std::string& text);

}  // namespace strata::engine
