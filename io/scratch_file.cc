#include "io/scratch_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>

#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

// For file systems without O_TMPFILE (NFS, overlayfs before 6.1).
FileDescriptor create_and_unlink(const std::string& directory) {
  std::string name = directory + "/strata-scratch-XXXXXX";
  FileDescriptor descriptor(mkostemp(name.data(), O_DIRECT | O_CLOEXEC));
  if (!descriptor.is_open()) throw_directory_refused(directory, errno);
  if (unlink(name.c_str()) != 0) throw_error<IoError>("unlink {}: {}", name, errno_text(errno));
  return descriptor;
}

FileDescriptor open_unnamed(const std::string& directory) {
  check_is_directory(directory);
  FileDescriptor descriptor = open_file(directory, O_TMPFILE | O_RDWR | O_DIRECT);
  if (descriptor.is_open()) return descriptor;
  // EISDIR and ENOENT: a kernel that does not know the flag; the directory is there.
  const bool unsupported = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT;
  if (!unsupported) throw_directory_refused(directory, errno);
  return create_and_unlink(directory);
}

}  // namespace

DirectFile open_scratch_file(const std::string& directory) {
  return DirectFile(open_unnamed(directory), directory, directory + "/(scratch file)");
}

}  // namespace strata::io
