#include <gtest/gtest.h>

#include <cstdlib>

#include "offload/comm/communicator.h"

namespace strata::comm {
namespace {

class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "PMI_RANK",
                                 "PMI_FD", "PMIX_RANK", "PMIX_NAMESPACE"}) {
      unsetenv(variable);
    }
  }
  static void set(const char* variable, const char* value) { setenv(variable, value, 1); }
};

TEST_F(Launcher, PlainProcessIsNotLaunched) { EXPECT_FALSE(launched_by_mpi()); }

TEST_F(Launcher, MpirunOfSeveralRanks) {
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_TRUE(launched_by_mpi());
}

TEST_F(Launcher, MpirunOfOneRank) {
  set("OMPI_COMM_WORLD_SIZE", "1");
  EXPECT_FALSE(launched_by_mpi());
}

TEST_F(Launcher, OtherProcessManagers) {
  set("PMI_SIZE", "4");
  EXPECT_TRUE(launched_by_mpi());
}

TEST_F(Launcher, SlurmAllocationAloneLaunchesNothing) {
  set("SLURM_NTASKS", "4");
  EXPECT_FALSE(launched_by_mpi());
  set("PMIX_RANK", "0");
  EXPECT_TRUE(launched_by_mpi());
}

}  // namespace
}  // namespace strata::comm
