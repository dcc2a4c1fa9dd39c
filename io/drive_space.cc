#include "io/drive_space.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>

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

[[noreturn]] void throw_full(const std::string& directory, std::int64_t needed_bytes,
                             std::int64_t free_bytes) {
  throw_error<ConfigError>("storage directory {}: {} are needed and {} are free; {}", directory,
                           with_bytes(needed_bytes), with_bytes(free_bytes), kAdvice);
}

struct stat status_of(const DirectFile& file) {
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) {
    throw_error<IoError>("stat {}: {}", file.path(), errno_text(errno));
  }
  return status;
}

constexpr std::int64_t kStatBlockBytes = 512;

// 0, or an errno.
int try_fallocate(const DirectFile& file, int mode, std::int64_t offset_bytes, std::int64_t bytes) {
  int error;
  do {
    error = fallocate(file.descriptor(), mode, offset_bytes, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  return error;
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

void preallocate(const DirectFile& file, std::int64_t bytes) {
  if (bytes == 0) return;
  // So that a fallocate bound to fail does not fill the disk first.
  const std::int64_t lacking_bytes = bytes - status_of(file).st_blocks * kStatBlockBytes;
  const std::int64_t free_bytes = free_bytes_of(file);
  if (free_bytes < lacking_bytes) throw_full(file.directory(), lacking_bytes, free_bytes);
  const int error = try_fallocate(file, 0, 0, bytes);
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT) throw_full(file.directory(), lacking_bytes, free_bytes);
  if (error == EOPNOTSUPP) {
    throw_error<ConfigError>(
        "storage directory {}: the file system cannot preallocate (fallocate); give a directory on "
        "ext4 or xfs",
        file.directory());
  }
  throw_error<IoError>("fallocate {}, {} bytes: {}", file.path(), bytes, errno_text(error));
}

void discard(const DirectFile& file, std::int64_t offset_bytes, std::int64_t bytes) {
  const int error =
      try_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_bytes, bytes);
  if (error == 0 || error == EOPNOTSUPP) return;
  throw_error<IoError>("discard {} at offset {}, {} bytes: {}", file.path(), offset_bytes, bytes,
                       errno_text(error));
}

std::string drive_of(const std::string& directory) {
  namespace fs = std::filesystem;
  struct stat status;
  if (stat(directory.c_str(), &status) != 0) throw_directory_refused(directory, errno);
  const std::string number = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
  std::error_code ignored;  // file systems without a block device of their own are not there
  const fs::path device = fs::canonical("/sys/dev/block/" + number, ignored);
  if (device.empty()) return number;
  return fs::exists(device / "partition", ignored) ? device.parent_path() : device;
}

std::vector<DriveSpace> look_at_drives(std::span<const std::string> directories) {
  std::vector<DriveSpace> drives;
  std::vector<dev_t> file_systems;
  for (const std::string& directory : directories) {
    const DirectFile file = open_scratch_file(directory);
    file_systems.push_back(status_of(file).st_dev);
    const auto first = std::find(file_systems.begin(), file_systems.end(), file_systems.back());
    drives.push_back(
        {directory, free_bytes_of(file), static_cast<int>(first - file_systems.begin())});
  }
  return drives;
}

void check_free(std::span<const DriveSpace> drives, std::int64_t each_bytes,
                std::int64_t needed_bytes) {
  for (const DriveSpace& drive : drives) {
    if (drives.size() == 1 || drive.free_bytes >= each_bytes) continue;
    throw_error<ConfigError>(
        "storage directory {}: {} are needed there at least and {} are free; free some space or "
        "leave this directory out",
        drive.directory, with_bytes(each_bytes), with_bytes(drive.free_bytes));
  }
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
