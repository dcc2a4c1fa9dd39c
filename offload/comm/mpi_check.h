// MPI's return codes as CommError. Communicators of this folder return errors instead of aborting.
#pragma once

#include <mpi.h>

#include "kernels/base/error.h"

namespace strata::comm {

// `operation` is what the run was doing, for people: "reduce-scatter", "MPI_Comm_dup".
inline void check_mpi(int code, const char* operation) {
  if (code == MPI_SUCCESS) return;
  char reason[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, reason, &length);
  throw_error<CommError>("{} failed in MPI: {}", operation, reason);
}

}  // namespace strata::comm
