#include "io/scratch_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "io/transfer.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

constexpr std::int64_t kAlignmentFallbackBytes = 4096;

[[noreturn]] void throw_refused(const std::string& directory, int error_number) {
  switch (error_number) {
    case ENOENT:
      throw_error<ConfigError>(
          "storage directory {}: there is no such directory; create it or give another", directory);
    case ENOTDIR:
      throw_error<ConfigError>(
          "storage directory {}: this is not a directory; give one on the NVMe drive", directory);
    case EROFS:
      throw_error<ConfigError>(
          "storage directory {}: the file system is read-only; remount it or give another "
          "directory",
          directory);
    case EACCES:
    case EPERM:
      throw_error<ConfigError>(
          "storage directory {}: no permission to create files there; change its mode or give "
          "another "
          "directory",
          directory);
    case EINVAL:
      throw_error<ConfigError>(
          "storage directory {}: the file system has no direct I/O (O_DIRECT); give a directory on "
          "ext4 or xfs",
          directory);
    default:
      throw_error<IoError>("create a scratch file in {}: {}", directory, errno_text(error_number));
  }
}

[[noreturn]] void throw_full(const std::string& directory, std::int64_t needed_bytes,
                             std::int64_t free_bytes) {
  throw_error<ConfigError>(
      "storage directory {}: {} ({} bytes) are needed and {} ({} bytes) are free; free some space, "
      "give another directory or place less on nvme",
      directory, format_bytes(needed_bytes), needed_bytes, format_bytes(free_bytes), free_bytes);
}

int open_retrying(const char* path, int flags) {
  int descriptor;
  do {
    descriptor = open(path, flags, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// For file systems without O_TMPFILE (NFS, overlayfs before 6.1).
int create_and_unlink(const std::string& directory) {
  std::string name = directory + "/strata-scratch-XXXXXX";
  const int descriptor = mkostemp(name.data(), O_DIRECT | O_CLOEXEC);
  if (descriptor < 0) throw_refused(directory, errno);
  if (unlink(name.c_str()) != 0) {
    const int error = errno;
    close(descriptor);
    throw_error<IoError>("unlink {}: {}", name, errno_text(error));
  }
  return descriptor;
}

int open_unnamed(const std::string& directory) {
  struct stat status;
  if (stat(directory.c_str(), &status) != 0) throw_refused(directory, errno);
  if (!S_ISDIR(status.st_mode)) throw_refused(directory, ENOTDIR);
  const int descriptor =
      open_retrying(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  // EISDIR and ENOENT: a kernel that does not know the flag; the directory is there.
  const bool unsupported = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT;
  if (!unsupported) throw_refused(directory, errno);
  return create_and_unlink(directory);
}

// STATX_DIOALIGN is Linux 6.1 and not on every file system; 4096 suits all drives in use.
std::int64_t direct_io_alignment(int descriptor) {
#if defined(STATX_DIOALIGN)
  struct statx status;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_offset_align != 0) {
    return std::max<std::int64_t>(status.stx_dio_offset_align, status.stx_dio_mem_align);
  }
#endif
  return kAlignmentFallbackBytes;
}

}  // namespace

ScratchFile::ScratchFile(const std::string& directory)
    : directory_(directory),
      path_(directory + "/(scratch file)"),
      descriptor_(open_unnamed(directory)),
      alignment_bytes_(direct_io_alignment(descriptor_)) {
  if (alignment_bytes_ > kPageBytes) {
    close(descriptor_);
    throw_error<ConfigError>(
        "storage directory {}: direct I/O there needs an alignment of {} bytes and at most {} is "
        "supported; "
        "give another directory",
        directory, alignment_bytes_, kPageBytes);
  }
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      alignment_bytes_(other.alignment_bytes_) {}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ScratchFile::check_free(std::int64_t bytes) const {
  const std::int64_t free = free_bytes();
  if (free < bytes) throw_full(directory_, bytes, free);
}

void ScratchFile::preallocate(std::int64_t bytes) {
  check_free(bytes);  // so that a fallocate bound to fail does not fill the disk first
  const std::int64_t free = free_bytes();
  int error;
  do {
    error = fallocate(descriptor_, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT) throw_full(directory_, bytes, free);
  if (error == EOPNOTSUPP) {
    throw_error<ConfigError>(
        "storage directory {}: the file system cannot preallocate (fallocate); give a directory on "
        "ext4 or xfs",
        directory_);
  }
  throw_error<IoError>("fallocate {}, {} bytes: {}", path_, bytes, errno_text(error));
}

std::int64_t ScratchFile::free_bytes() const {
  struct statvfs status;
  if (fstatvfs(descriptor_, &status) != 0) {
    throw_error<IoError>("statvfs {}: {}", directory_, errno_text(errno));
  }
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

}  // namespace strata::io
