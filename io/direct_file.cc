#include "io/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/transfer.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr std::int64_t kAlignmentFallbackBytes = 4096;

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

DirectFile::DirectFile(FileDescriptor descriptor, std::string directory, std::string path)
    : descriptor_(std::move(descriptor)),
      directory_(std::move(directory)),
      path_(std::move(path)),
      alignment_bytes_(direct_io_alignment(descriptor_.get())) {
  if (alignment_bytes_ > kPageBytes) {
    throw_error<ConfigError>(
        "storage directory {}: direct I/O there needs an alignment of {} bytes and at most {} is "
        "supported; give another directory",
        directory_, alignment_bytes_, kPageBytes);
  }
}

FileDescriptor open_file(const std::string& path, int flags) {
  int descriptor;
  do {
    descriptor = open(path.c_str(), flags | O_CLOEXEC, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return FileDescriptor(descriptor);
}

void check_is_directory(const std::string& directory) {
  struct stat status;
  if (stat(directory.c_str(), &status) != 0) throw_directory_refused(directory, errno);
  if (!S_ISDIR(status.st_mode)) throw_directory_refused(directory, ENOTDIR);
}

void throw_directory_refused(const std::string& directory, int error_number) {
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
          "another directory",
          directory);
    case EINVAL:
      throw_error<ConfigError>(
          "storage directory {}: the file system has no direct I/O (O_DIRECT); give a directory on "
          "ext4 or xfs",
          directory);
    case EOPNOTSUPP:
      throw_error<ConfigError>(
          "storage directory {}: files cannot be created there; give a directory on ext4 or xfs",
          directory);
    default:
      throw_error<IoError>("create a file in {}: {}", directory, errno_text(error_number));
  }
}

}  // namespace strata::io
