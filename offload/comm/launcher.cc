#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/comm/communicator.h"

namespace strata::comm {
namespace {

int ranks_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

bool has_pmi() {
  for (const char* variable : {"PMI_RANK", "PMI_FD", "PMIX_RANK", "PMIX_NAMESPACE"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

}  // namespace

// OMPI_COMM_WORLD_SIZE: OpenMPI's mpirun. PMI_SIZE: MPICH, Intel MPI, Slurm's PMI-1 and PMI-2.
// SLURM_NTASKS is also set in an salloc shell, where nothing has been launched yet, so it counts
// only beside a process manager's variable.
bool launched_by_mpi() {
  return ranks_in("OMPI_COMM_WORLD_SIZE") > 1 || ranks_in("PMI_SIZE") > 1 ||
         (ranks_in("SLURM_NTASKS") > 1 && has_pmi());
}

#ifdef STRATA_HAVE_MPI
bool has_mpi() { return true; }
#else
bool has_mpi() { return false; }

std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions&, FailureLatch&) {
  throw ConfigError(
      "this build is without MPI and trains on one rank: start it without mpirun or srun, or "
      "install MPI and configure with -DSTRATA_MPI=ON");
}
#endif

}  // namespace strata::comm
