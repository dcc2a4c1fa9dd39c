// The machine as a run sees it: its name, processors it may use, memory it may take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

// Undoes a launcher's default binding of a rank to one core (OpenMPI's for ranks that nobody asked
// to bind), so that the ranks of a host share its processors; bindings asked for by the user, by
// Slurm or by a cpuset are left alone. Call before any thread starts. Returns a sentence for people
// about what was done or could not be, or "".
std::string undo_default_binding();

// Processors of this process's affinity mask, in hwloc's order (NUMA node, core).
std::vector<int> allowed_cpus();

// As hwloc sees the machine.
struct ProcessorLayout {
  int numa_nodes = 0;
  int cores = 0;
  int hardware_threads = 0;
  int allowed = 0;  // hardware threads that this process may use
};
ProcessorLayout processor_layout();

// Threads for this rank: the allowed processors, limited by the cgroup's CPU quota, divided over
// `ranks` that share them (this rank is number `rank_of_sharing`); at least 1.
struct CpuShare {
  int threads = 1;
  // To bind workers to, one hardware thread of each core first. Empty where binding would pile
  // threads up: ranks overlap, or a quota (not a set of processors) is what limits.
  std::vector<int> cpus;
};
CpuShare cpu_share(int sharing_rank, int sharing_ranks);

// Restricts the calling thread, and those it starts later, to `cpus`: what they touch first lies in
// the memory next to these. False when the system does not allow it; nothing when empty.
bool stay_on(const std::vector<int>& cpus);

// Where the processors that this thread may use belong to several NUMA nodes, has the memory that
// it and threads started later touch first dealt to these nodes page by page, so that all of their
// bandwidth is used; on one node memory stays local. Call before memory is reserved. Returns the
// number of nodes; 0 where the system does not allow it.
int spread_memory();

// As it calls itself; "" when it does not say.
std::string host_name();

// What a new process could take: the smaller of available RAM and the room in its cgroup.
std::int64_t available_memory_bytes();

// Processor time that all threads of this process have taken, the kernel's for them included.
double process_cpu_seconds();

// Resident set now (VmRSS), and the highest so far (VmHWM).
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace strata
