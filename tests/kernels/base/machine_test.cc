#include "kernels/base/machine.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/control_groups.h"

namespace strata {
namespace {

void bind_to(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<std::size_t>(cpu), &mask);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(mask), &mask), 0);
}

// Runs `check` in a child process: bindings and variables that it sets end with it.
template <typename Check>
bool true_in_child(const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Machine, HasTheNameThatTheKernelGivesIt) {
  std::string name;
  std::getline(std::ifstream("/proc/sys/kernel/hostname"), name);
  EXPECT_EQ(host_name(), name);
  EXPECT_FALSE(name.empty());
}

TEST(Machine, AllowedCpusAreTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  const std::vector<int> cpus = allowed_cpus();
  const std::set<int> distinct(cpus.begin(), cpus.end());
  EXPECT_EQ(distinct.size(), cpus.size());
  EXPECT_EQ(static_cast<int>(cpus.size()), CPU_COUNT(&mask));
  for (const int cpu : cpus) EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &mask));
  EXPECT_TRUE(true_in_child([&] {
    bind_to(cpus.back());
    return allowed_cpus() == std::vector<int>{cpus.back()};
  }));
}

TEST(Machine, RanksPartitionTheProcessors) {
  if (ControlGroups().cpu_quota()) GTEST_SKIP() << "a quota is what limits here";
  const auto count = static_cast<int>(allowed_cpus().size());
  for (int ranks = 1; ranks <= count; ++ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const CpuShare share = cpu_share(rank, ranks);
      EXPECT_EQ(share.threads, static_cast<int>(share.cpus.size()));
      EXPECT_GE(share.threads, count / ranks);
      all.insert(all.end(), share.cpus.begin(), share.cpus.end());
    }
    std::ranges::sort(all);
    std::vector<int> expected = allowed_cpus();
    std::ranges::sort(expected);
    EXPECT_EQ(all, expected) << ranks << " ranks";
  }
}

TEST(Machine, RanksThatOutnumberProcessorsAreNotBound) {
  const CpuShare share = cpu_share(5, 1 << 20);
  EXPECT_EQ(share.threads, 1);
  EXPECT_TRUE(share.cpus.empty());
}

// A process that is called mpirun and has all processors starts a rank that is bound to one.
template <typename Check>
bool true_in_bound_rank(const Check& check) {
  const std::vector<int> cpus = allowed_cpus();
  return true_in_child([&] {
    ::prctl(PR_SET_NAME, "mpirun");
    return true_in_child([&] {
      ::prctl(PR_SET_NAME, "strata");
      ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
      bind_to(cpus.front());
      return check();
    });
  });
}

TEST(UndoDefaultBinding, GivesARankWhatItsLauncherHas) {
  const std::size_t processors = allowed_cpus().size();
  if (processors < 2) GTEST_SKIP() << "one processor: nothing to undo";
  EXPECT_TRUE(true_in_bound_rank(
      [&] { return !undo_default_binding().empty() && allowed_cpus().size() == processors; }));
}

TEST(UndoDefaultBinding, ObeysABindingThatWasAskedFor) {
  const std::pair<const char*, const char*> asked_for[] = {
      {"OMPI_MCA_hwloc_base_binding_policy", "core"},
      {"OMPI_MCA_rmaps_base_mapping_policy", "slot:PE=1"}};
  for (const auto& [variable, value] : asked_for) {
    EXPECT_TRUE(true_in_bound_rank([&] {
      ::setenv(variable, value, 1);
      return undo_default_binding().empty() && allowed_cpus().size() == 1;
    })) << variable;
  }
}

// mpirun --map-by ppr:1:node says where ranks start, not that each wants one core.
TEST(UndoDefaultBinding, AMappingAloneAsksForNoBinding) {
  const std::size_t processors = allowed_cpus().size();
  if (processors < 2) GTEST_SKIP() << "one processor: nothing to undo";
  EXPECT_TRUE(true_in_bound_rank([&] {
    ::setenv("OMPI_MCA_rmaps_base_mapping_policy", "ppr:1:node", 1);
    return !undo_default_binding().empty() && allowed_cpus().size() == processors;
  }));
}

TEST(UndoDefaultBinding, LeavesOtherProcessesAlone) {
  EXPECT_TRUE(true_in_bound_rank([&] {
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
    return undo_default_binding().empty() && allowed_cpus().size() == 1;
  }));
}

// hwloc is told of two nodes of one processor each; the system has at least the first.
TEST(Machine, MemoryIsDealtToTheNodesOfTheProcessors) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2 || cpus[0] != 0 || cpus[1] != 1) GTEST_SKIP() << "needs processors 0 and 1";
  const auto policy_after = [](const char* machine) {
    ::setenv("HWLOC_SYNTHETIC", machine, 1);
    ::setenv("HWLOC_THISSYSTEM", "1", 1);
    const int nodes = spread_memory();
    int policy = -1;
    ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0);
    return std::pair(nodes, policy);
  };
  EXPECT_TRUE(true_in_child([&] {
    return policy_after("numa:2 core:1 pu:1") == std::pair(2, static_cast<int>(MPOL_INTERLEAVE));
  }));
  EXPECT_TRUE(true_in_child([&] {
    return policy_after("numa:1 core:2 pu:1") == std::pair(1, static_cast<int>(MPOL_DEFAULT));
  }));
}

TEST(Machine, PeakResidentMemoryRemembersWhatWasHeld) {
  constexpr std::int64_t kHeld = 64 * kMiB;
  Budget budget("host memory", kHeld);
  { const AlignedBuffer buffer(budget, "held", kHeld); }
  EXPECT_GE(peak_resident_bytes(), kHeld * 9 / 10) << "counters lag by a few pages per core";
}

TEST(Machine, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LT(available_memory_bytes(), ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
}

}  // namespace
}  // namespace strata
