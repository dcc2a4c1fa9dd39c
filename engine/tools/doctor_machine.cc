#include "engine/tools/doctor_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <cstdint>

#include "engine/options/count_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/control_groups.h"
#include "kernels/base/isa.h"
#include "kernels/base/machine.h"
#include "kernels/base/system_file.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kLittleMemoryBytes = 2 * kGiB;

Finding examine_kernel() {
  utsname name{};
  if (::uname(&name) != 0) return {"kernel", Verdict::note, "unknown", "Linux 5.11 or later"};
  return {"kernel", Verdict::ok, fmt::format("{} {} {}", name.sysname, name.release, name.machine),
          ""};
}

Finding examine_processors() {
  const ProcessorLayout layout = processor_layout();
  Finding finding{
      "processors", Verdict::ok,
      fmt::format("{}, {}, {}; this process may use {}", count_text(layout.numa_nodes, "NUMA node"),
                  count_text(layout.cores, "core"),
                  count_text(layout.hardware_threads, "hardware thread"), layout.allowed),
      ""};
  if (layout.allowed < layout.hardware_threads) {
    finding.verdict = Verdict::note;
    finding.advice =
        "an affinity mask or a cpuset keeps it from the others (taskset, Slurm, the "
        "container's --cpuset-cpus)";
  } else if (layout.numa_nodes > 1) {
    finding.verdict = Verdict::note;
    finding.advice = fmt::format(
        "one rank for each NUMA node keeps memory near its cores: mpirun -n {} --map-by numa",
        layout.numa_nodes);
  }
  return finding;
}

Finding examine_quota() {
  const auto quota = ControlGroups().cpu_quota();
  if (!quota) return {"processor quota", Verdict::ok, "none", ""};
  return {"processor quota", Verdict::note, fmt::format("{:.1f} processors' worth of time", *quota),
          "a control group limits it: raise cpu.max (the container's --cpus) to use more"};
}

// oneDNN decides for itself what it multiplies bf16 with; these are what it looks for.
Finding examine_isa() {
  std::vector<std::string> extras;
  if (__builtin_cpu_supports("avx512bf16")) extras.emplace_back("avx512_bf16");
  if (__builtin_cpu_supports("amx-bf16")) extras.emplace_back("amx_bf16");
  const Isa isa = best_isa();
  Finding finding{
      "instruction set", Verdict::ok,
      fmt::format("{}{}{}", name_of(isa), extras.empty() ? "" : ", ", fmt::join(extras, ", ")), ""};
  if (isa == Isa::scalar) {
    finding.verdict = Verdict::note;
    finding.advice =
        "the processor (or the virtual machine's model of it) has no AVX2: training "
        "works and is several times slower";
  } else if (extras.empty()) {
    finding.found += ", no bf16 arithmetic: bf16 saves bytes and is computed in f32";
  }
  return finding;
}

std::int64_t total_memory_bytes() {
  const std::string text = read_system_file("/proc/meminfo").value_or("");
  return number_of_key(text, "MemTotal:").value_or(0) * kKiB;
}

Finding examine_memory() {
  const std::int64_t available_bytes = available_memory_bytes();
  Finding finding{"memory", Verdict::ok,
                  fmt::format("{}, of which {} can be had now", format_bytes(total_memory_bytes()),
                              format_bytes(available_bytes)),
                  ""};
  if (available_bytes < kLittleMemoryBytes) {
    finding.verdict = Verdict::note;
    finding.advice =
        "end other programs or raise the limit: little more than the smallest models "
        "will fit";
  }
  return finding;
}

Finding examine_memory_limit() {
  const auto room_bytes = ControlGroups().memory_room_bytes();
  if (!room_bytes || *room_bytes >= total_memory_bytes()) {
    return {"memory limit", Verdict::ok, "no control group limits memory", ""};
  }
  return {"memory limit", Verdict::note,
          fmt::format("a control group leaves {}", format_bytes(std::max(*room_bytes, INT64_C(0)))),
          "raise memory.max (the container's --memory) to use more"};
}

Finding examine_huge_pages() {
  const std::string mode =
      huge_page_mode(read_system_file("/sys/kernel/mm/transparent_hugepage/enabled").value_or(""));
  const auto reserved =
      number_of_key(read_system_file("/proc/meminfo").value_or(""), "HugePages_Total:").value_or(0);
  const std::string reserved_text = reserved == 0 ? "" : fmt::format("; {} reserved", reserved);
  if (mode == "always" || mode == "madvise") {
    return {"huge pages", Verdict::ok,
            fmt::format("transparent ({}), which is what Strata asks for{}", mode, reserved_text),
            ""};
  }
  return {"huge pages", Verdict::note,
          fmt::format("transparent ones are {}{}", mode.empty() ? "not in this kernel" : "off",
                      reserved_text),
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

}  // namespace

std::string huge_page_mode(const std::string& text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return text.substr(open + 1, close - open - 1);
}

Findings examine_machine() {
  return {examine_kernel(), examine_processors(),   examine_quota(),     examine_isa(),
          examine_memory(), examine_memory_limit(), examine_huge_pages()};
}

}  // namespace strata::engine
