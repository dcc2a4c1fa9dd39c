#include "engine/tools/doctor_storage.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tools/gc_command.h"
#include "io/direct_file.h"
#include "io/drive_space.h"
#include "io/scratch_file.h"
#include "io/volume.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/store_search.h"

namespace strata::engine {
namespace {

// statfs(2), linux/magic.h; tmpfs is its own case.
constexpr long kTmpfs = 0x01021994;
constexpr std::array<std::pair<long, const char*>, 9> kFileSystems = {{
    {0xEF53, "ext4"},
    {0x58465342, "xfs"},
    {0x9123683E, "btrfs"},
    {0xF2F52010, "f2fs"},
    {0x2FC12FC1, "zfs"},
    {0x6969, "nfs"},
    {0x794C7630, "overlayfs"},
    {0x65735546, "fuse"},
    {kTmpfs, "tmpfs"},
}};

std::string name_of_file_system(long type) {
  for (const auto& [known, name] : kFileSystems) {
    if (known == type) return name;
  }
  return fmt::format("type {:#x}", type);
}

Finding examine_file_system(const std::string& directory) {
  struct statfs status {};
  if (::statfs(directory.c_str(), &status) != 0) return {"file system", Verdict::ok, "unknown", ""};
  const auto type = static_cast<long>(status.f_type);
  const std::string name = name_of_file_system(type);
  if (type == kTmpfs) {
    return {"file system", Verdict::note, name + ", which is memory",
            "give a directory on the drive: state here takes RAM that no budget counts"};
  }
  const bool is_plain = name == "ext4" || name == "xfs" || name == "f2fs";
  if (is_plain) return {"file system", Verdict::ok, name, ""};
  return {"file system", Verdict::note, name,
          "ext4 or xfs on a local drive gives direct I/O at its full speed"};
}

Finding examine_preallocation(io::DirectFile& file) {
  try {
    io::preallocate(file, kMiB);
  } catch (const Error& error) {
    return {"preallocation", Verdict::problem, error.what(), "give another directory"};
  }
  return {"preallocation", Verdict::ok, "works (fallocate)", ""};
}

// The same drive in two places would be counted on twice.
Finding examine_sharing(std::span<const io::DriveSpace> drives, std::size_t index) {
  const std::string drive = io::drive_of(drives[index].directory);
  for (const io::DriveSpace& other : drives.first(index)) {
    if (io::drive_of(other.directory) != drive) continue;
    return {"drive", Verdict::note, fmt::format("the same as of {}", other.directory),
            "two directories on one drive gain nothing: give one for each drive"};
  }
  return {"drive", Verdict::ok, "not that of a directory before it", ""};
}

Finding examine_leftovers(const std::string& directory) {
  const LeftOver left = left_over(directory);
  if (left.stale + left.forced == 0) return {"stale stores", Verdict::ok, "none", ""};
  return {"stale stores", Verdict::note, left_over_text(left), reclaim_advice(left, directory)};
}

Findings examine_directory(std::span<const io::DriveSpace> drives, std::size_t index) {
  const io::DriveSpace& drive = drives[index];
  io::DirectFile file = io::open_scratch_file(drive.directory);
  Findings findings = {
      examine_file_system(drive.directory),
      {"direct I/O", Verdict::ok, fmt::format("works, aligned to {} bytes", file.alignment_bytes()),
       ""},
      {"free space", Verdict::ok, format_bytes(drive.free_bytes), ""},
      examine_preallocation(file),
      examine_leftovers(drive.directory),
  };
  if (drives.size() > 1) findings.push_back(examine_sharing(drives, index));
  for (Finding& finding : findings) {
    finding.found = fmt::format("{}: {}", drive.directory, finding.found);
  }
  return findings;
}

}  // namespace

Findings examine_engines(const io::UringSupport& support) {
  Findings findings;
  if (!support.usable()) {
    findings.push_back({"io_uring", Verdict::note, support.obstacle,
                        support.advice + "; until then --io-engine threads is used"});
    return findings;
  }
  findings.push_back({"io_uring", Verdict::ok,
                      fmt::format("works, with timed waits (EXT_ARG){}",
                                  support.registers_files ? " and registered files" : ""),
                      ""});
  if (!support.registers_buffers) {
    findings.push_back({"registered memory", Verdict::note, "io_uring cannot register buffers",
                        "Linux 5.19 or later can: transfers then cost less processor time"});
  } else if (support.locked_bytes_max == std::numeric_limits<std::int64_t>::max()) {
    findings.push_back({"registered memory", Verdict::ok,
                        "buffers can be registered, without a limit on locked memory", ""});
  } else {
    findings.push_back(
        {"registered memory", Verdict::note,
         fmt::format("buffers can be registered up to {} (RLIMIT_MEMLOCK, no CAP_IPC_LOCK)",
                     format_bytes(support.locked_bytes_max)),
         "what is beyond costs more processor time: raise it with ulimit -l, "
         "/etc/security/limits.conf or systemd's LimitMEMLOCK"});
  }
  return findings;
}

Findings examine_directories(const std::string& nvme) {
  if (nvme.empty()) {
    return {{"storage", Verdict::ok, "no directory was given to look at",
             "strata doctor --nvme DIR[,DIR...]"}};
  }
  Findings findings;
  std::vector<std::string> usable;
  for (const io::VolumeDirectory& directory : io::parse_directories(nvme)) {
    try {
      io::look_at_drives({&directory.path, 1});
      usable.push_back(directory.path);
    } catch (const Error& error) {
      findings.push_back({"storage", Verdict::problem, error.what(), ""});
    }
  }
  const std::vector<io::DriveSpace> drives = io::look_at_drives(usable);
  for (std::size_t i = 0; i < drives.size(); ++i) {
    for (Finding& finding : examine_directory(drives, i)) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace strata::engine
