#include "io/scratch_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

FileDescriptor create_and_unlink(const std::string& directory) {
  std::string name = directory + "/strata-scratch-XXXXXX";
  FileDescriptor descriptor(mkostemp(name.data(), O_DIRECT | O_CLOEXEC));
  if (!descriptor.is_open())
    throw_directory_refused(directory, errno == ENOENT ? EOPNOTSUPP : errno);
  if (unlink(name.c_str()) != 0) throw_error<IoError>("unlink {}: {}", name, errno_text(errno));
  return descriptor;
}

}  // namespace

FileDescriptor open_nameless(const std::string& directory) {
  check_is_directory(directory);
  FileDescriptor descriptor = open_file(directory, O_TMPFILE | O_RDWR | O_DIRECT);
  // EISDIR and ENOENT: a kernel that does not know the flag; the directory is there.
  const bool unsupported = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT;
  if (!descriptor.is_open() && !unsupported) throw_directory_refused(directory, errno);
  return descriptor;
}

DirectFile open_scratch_file(const std::string& directory) {
  FileDescriptor descriptor = open_nameless(directory);
  if (!descriptor.is_open()) descriptor = create_and_unlink(directory);
  return DirectFile(std::move(descriptor), directory, directory + "/(scratch file)");
}

}  // namespace strata::io
