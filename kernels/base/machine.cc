#include "kernels/base/machine.h"

#include <hwloc.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "kernels/base/control_groups.h"
#include "kernels/base/error.h"
#include "kernels/base/system_file.h"

namespace strata {
namespace {

// A set of processors, as large as the system needs.
class CpuMask {
 public:
  // The affinity mask of a process (0: this one); empty if it cannot be read.
  static CpuMask of_process(pid_t pid) {
    // The kernel refuses a set smaller than its own, whose size it does not tell.
    for (std::size_t cpus = CPU_SETSIZE; cpus <= std::size_t{1} << 20; cpus *= 2) {
      CpuMask mask(cpus);
      if (::sched_getaffinity(pid, mask.bytes_, mask.set_.get()) == 0) return mask;
    }
    return CpuMask(CPU_SETSIZE);
  }

  bool apply_to_this_process() const { return ::sched_setaffinity(0, bytes_, set_.get()) == 0; }
  bool contains(unsigned cpu) const { return CPU_ISSET_S(cpu, bytes_, set_.get()) != 0; }
  int count() const { return CPU_COUNT_S(bytes_, set_.get()); }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  explicit CpuMask(std::size_t cpus) : bytes_(CPU_ALLOC_SIZE(cpus)), set_(CPU_ALLOC(cpus)) {
    STRATA_CHECK(set_ != nullptr);
    CPU_ZERO_S(bytes_, set_.get());
  }
  std::size_t bytes_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

class Topology {
 public:
  Topology() {
    if (::hwloc_topology_init(&topology_) != 0) fail();
    if (::hwloc_topology_load(topology_) != 0) {
      ::hwloc_topology_destroy(topology_);
      fail();
    }
  }
  ~Topology() { ::hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  hwloc_topology_t get() const { return topology_; }

 private:
  [[noreturn]] static void fail() {
    throw_error<Error>("hwloc cannot read this machine's processors (is /sys mounted?)");
  }
  hwloc_topology_t topology_ = nullptr;
};

bool any_set(std::initializer_list<const char*> variables) {
  return std::ranges::any_of(variables,
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

// The process that OpenMPI starts this host's ranks from; scripts may stand in between. Nothing if
// it is out of sight (another process namespace).
std::optional<pid_t> find_launcher() {
  for (pid_t pid = ::getppid(); pid > 1;) {
    const std::string status = read_system_file(fmt::format("/proc/{}/status", pid)).value_or("");
    for (const char* name : {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"}) {
      if (status.starts_with(fmt::format("Name:\t{}", name))) return pid;
    }
    pid = static_cast<pid_t>(number_of_key(status, "PPid:").value_or(0));
  }
  return std::nullopt;
}

struct Processor {
  int cpu;
  unsigned sibling;  // number within its core
};

// In hwloc's order: hardware threads of a core, cores of a NUMA node, NUMA nodes.
std::vector<Processor> allowed_processors() {
  const CpuMask mask = CpuMask::of_process(0);
  const Topology topology;
  std::vector<Processor> processors;
  hwloc_obj_t unit = nullptr;
  while ((unit = ::hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, unit)) != nullptr) {
    if (mask.contains(unit->os_index)) {
      processors.push_back({static_cast<int>(unit->os_index), unit->sibling_rank});
    }
  }
  if (processors.empty()) throw_error<Error>("hwloc sees no processor that this process may use");
  return processors;
}

// "VmRSS:  1234 kB" of a file in /proc.
std::int64_t proc_bytes(const std::string& path, std::string_view key) {
  const auto kib = number_of_key(read_system_file(path).value_or(""), key);
  if (!kib) throw_error<Error>("{} has no line {} (is /proc mounted?)", path, key);
  return *kib * 1024;
}

// A mapping policy only says on which node a rank starts, unless it counts processors per rank
// ("slot:PE=4").
bool asks_for_cores(const char* variable) {
  const char* const policy = std::getenv(variable);
  return policy != nullptr &&
         (std::strstr(policy, "PE=") != nullptr || std::strstr(policy, "pe=") != nullptr);
}

}  // namespace

// The launcher's own mask is what a rank would have without binding: it is within the cpuset, and
// within what the user gave the launcher (taskset, Slurm).
std::string undo_default_binding() {
  const bool by_openmpi = any_set({"OMPI_COMM_WORLD_SIZE"});  // by mpirun; srun sets none
  const bool asked_for =
      any_set({"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_set",
               "OMPI_MCA_rmaps_rank_file_path", "PRTE_MCA_hwloc_default_binding_policy",
               "PRTE_MCA_hwloc_default_cpu_list"}) ||
      asks_for_cores("OMPI_MCA_rmaps_base_mapping_policy") ||
      asks_for_cores("PRTE_MCA_rmaps_default_mapping_policy");
  if (!by_openmpi || asked_for) return "";
  const int bound = CpuMask::of_process(0).count();
  const std::optional<pid_t> launcher = find_launcher();
  const CpuMask mask = CpuMask::of_process(launcher.value_or(0));
  if (mask.count() <= bound) return "";
  if (!mask.apply_to_this_process()) {
    return fmt::format(
        "OpenMPI has bound this rank to {} of the {} processors that mpirun may use, and the "
        "system "
        "does not let it use the others: run mpirun --bind-to none",
        bound, mask.count());
  }
  return fmt::format(
      "OpenMPI had bound this rank to {} of the {} processors that mpirun may use; it now uses "
      "them "
      "all (mpirun --bind-to decides otherwise)",
      bound, mask.count());
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (const Processor& processor : allowed_processors()) cpus.push_back(processor.cpu);
  return cpus;
}

ProcessorLayout processor_layout() {
  const Topology topology;
  const auto count = [&](hwloc_obj_type_t type) {
    return ::hwloc_get_nbobjs_by_type(topology.get(), type);
  };
  return {count(HWLOC_OBJ_NUMANODE), count(HWLOC_OBJ_CORE), count(HWLOC_OBJ_PU),
          static_cast<int>(allowed_processors().size())};
}

CpuShare cpu_share(int sharing_rank, int sharing_ranks) {
  STRATA_CHECK(sharing_rank >= 0 && sharing_rank < sharing_ranks, "rank {} of {}", sharing_rank,
               sharing_ranks);
  std::vector<Processor> processors = allowed_processors();
  const auto count = static_cast<int>(processors.size());
  if (count < sharing_ranks) return {};
  const auto begin = processors.begin() + std::int64_t{count} * sharing_rank / sharing_ranks;
  const auto end = processors.begin() + std::int64_t{count} * (sharing_rank + 1) / sharing_ranks;
  CpuShare share{static_cast<int>(end - begin), {}};
  const auto quota = ControlGroups().cpu_quota();
  if (quota && *quota / sharing_ranks < share.threads) {
    // Other groups use these processors too: the system sees which are free, we do not.
    share.threads = std::max(1, static_cast<int>(*quota / sharing_ranks));
    return share;
  }
  // One hardware thread of each core first, for runs with fewer threads.
  std::ranges::stable_sort(begin, end, {}, &Processor::sibling);
  for (auto it = begin; it != end; ++it) share.cpus.push_back(it->cpu);
  return share;
}

bool stay_on(const std::vector<int>& cpus) {
  if (cpus.empty()) return true;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) {
    if (cpu >= CPU_SETSIZE) return false;
    CPU_SET(static_cast<std::size_t>(cpu), &mask);
  }
  return ::sched_setaffinity(0, sizeof(mask), &mask) == 0;
}

int spread_memory() {
  const Topology topology;
  const std::unique_ptr<hwloc_bitmap_s, decltype(&::hwloc_bitmap_free)> cpus(::hwloc_bitmap_alloc(),
                                                                             &::hwloc_bitmap_free);
  const std::unique_ptr<hwloc_bitmap_s, decltype(&::hwloc_bitmap_free)> nodes(
      ::hwloc_bitmap_alloc(), &::hwloc_bitmap_free);
  for (const int cpu : allowed_cpus()) {
    ::hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  }
  ::hwloc_cpuset_to_nodeset(topology.get(), cpus.get(), nodes.get());
  const int count = ::hwloc_bitmap_weight(nodes.get());
  if (count <= 1) return count;
  const int refused = ::hwloc_set_membind(topology.get(), nodes.get(), HWLOC_MEMBIND_INTERLEAVE,
                                          HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
  return refused == 0 ? count : 0;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

std::int64_t available_memory_bytes() {
  const std::int64_t machine_bytes = proc_bytes("/proc/meminfo", "MemAvailable:");
  const std::int64_t room_bytes = ControlGroups().memory_room_bytes().value_or(machine_bytes);
  return std::clamp(room_bytes, std::int64_t{0}, machine_bytes);
}

double process_cpu_seconds() {
  timespec taken{};
  STRATA_CHECK(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken) == 0, "no clock of this process");
  return static_cast<double>(taken.tv_sec) + 1e-9 * static_cast<double>(taken.tv_nsec);
}

std::int64_t resident_bytes() { return proc_bytes("/proc/self/status", "VmRSS:"); }

std::int64_t peak_resident_bytes() { return proc_bytes("/proc/self/status", "VmHWM:"); }

}  // namespace strata
