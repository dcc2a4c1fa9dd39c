#include "io/drive_space.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "io/scratch_file.h"
#include "io/transfer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr const char* kAdvice = "free some space, give another directory or place less on nvme";

std::string with_bytes(std::int64_t bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

dev_t file_system_of(const DirectFile& file) {
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) {
    throw_error<IoError>("stat {}: {}", file.path(), errno_text(errno));
  }
  return status.st_dev;
}

std::string list_free(std::span<const DriveSpace> drives) {
  std::string list;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    const DriveSpace& drive = drives[i];
    const auto owner = static_cast<std::size_t>(drive.file_system);
    list += i == 0 ? "" : ", ";
    list += owner == i ? fmt::format("{} in {}", with_bytes(drive.free_bytes), drive.directory)
                       : fmt::format("{} is on the same file system as {}", drive.directory,
                                     drives[owner].directory);
  }
  return list;
}

}  // namespace

std::int64_t free_bytes_of(const DirectFile& file) {
  struct statvfs status;
  if (fstatvfs(file.descriptor(), &status) != 0) {
    throw_error<IoError>("statvfs {}: {}", file.directory(), errno_text(errno));
  }
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

void throw_full(const std::string& directory, std::int64_t needed_bytes, std::int64_t free_bytes) {
  throw_error<ConfigError>("storage directory {}: {} are needed and {} are free; {}", directory,
                           with_bytes(needed_bytes), with_bytes(free_bytes), kAdvice);
}

std::vector<DriveSpace> look_at_drives(std::span<const std::string> directories) {
  std::vector<DriveSpace> drives;
  std::vector<dev_t> file_systems;
  for (const std::string& directory : directories) {
    const DirectFile file = open_scratch_file(directory);
    file_systems.push_back(file_system_of(file));
    const auto first = std::find(file_systems.begin(), file_systems.end(), file_systems.back());
    drives.push_back(
        {directory, free_bytes_of(file), static_cast<int>(first - file_systems.begin())});
  }
  return drives;
}

void check_total_free(std::span<const DriveSpace> drives, std::int64_t needed_bytes) {
  std::int64_t free_bytes = 0;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    if (static_cast<std::size_t>(drives[i].file_system) == i) free_bytes += drives[i].free_bytes;
  }
  if (free_bytes >= needed_bytes) return;
  if (drives.size() == 1) throw_full(drives[0].directory, needed_bytes, free_bytes);
  throw_error<ConfigError>("storage directories: {} are needed and {} are free together: {}; {}",
                           with_bytes(needed_bytes), with_bytes(free_bytes), list_free(drives),
                           kAdvice);
}

}  // namespace strata::io
