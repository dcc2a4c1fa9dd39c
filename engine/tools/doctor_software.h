// What `strata doctor` says of GPUs and of MPI.
#pragma once

#include <string>

#include "engine/tools/doctor_finding.h"

namespace strata::engine {

Finding examine_gpu();
Finding examine_mpi();

// The file that a command's name stands for in a list of directories such as PATH; empty when
// there is none.
std::string find_program(const std::string& name, const std::string& path_list);

}  // namespace strata::engine
