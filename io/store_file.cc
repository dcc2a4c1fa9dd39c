#include "io/store_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "io/scratch_file.h"
#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr std::int64_t kStatBlockBytes = 512;  // the unit of st_blocks, whatever the file system

// False: another process has it.
bool take_lock(const FileDescriptor& file, const std::string& path) {
  int error;
  do {
    error = flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EWOULDBLOCK) {
    throw_error<IoError>("lock {}: {}", path, errno_text(error));
  }
  return error == 0;
}

struct stat status_of(const FileDescriptor& file, const std::string& path) {
  struct stat status;
  if (fstat(file.get(), &status) != 0) {
    throw_error<IoError>("stat {}: {}", path, errno_text(errno));
  }
  return status;
}

[[noreturn]] void throw_exists(const std::string& path) {
  if (FoundStoreFile(path).in_use()) {
    throw_error<ConfigError>("store file {}: another running process uses it", path);
  }
  throw_error<ConfigError>(
      "store file {}: it is left over from a run that ended; `strata gc` of its directory removes "
      "it",
      path);
}

// Makes the name durable: a flush of the file need not.
void flush_directory(const std::string& directory) {
  const FileDescriptor descriptor = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (!descriptor.is_open() || fsync(descriptor.get()) != 0) {
    throw_error<IoError>("flush directory {}: {}", directory, errno_text(errno));
  }
}

DirectFile create_locked(const std::string& directory, const std::string& path) {
  check_is_directory(directory);
  FileDescriptor descriptor = open_file(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT);
  if (!descriptor.is_open() && errno == EEXIST) throw_exists(path);
  if (!descriptor.is_open()) throw_directory_refused(directory, errno);
  try {
    // Between the two calls somebody who tidies up may have taken it for a dead one.
    if (!take_lock(descriptor, path) || status_of(descriptor, path).st_nlink == 0) {
      throw_error<IoError>("lock {}: another process is removing it; start again", path);
    }
    flush_directory(directory);
    return DirectFile(std::move(descriptor), directory, path);
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
}

}  // namespace

StoreFile::StoreFile(const std::string& directory, const std::string& name)
    : file_(name.empty() ? open_scratch_file(directory)
                         : create_locked(directory, directory + "/" + name)),
      owned_(!name.empty()) {}

StoreFile::StoreFile(const std::string& directory, const std::string& name, std::int64_t bytes)
    : StoreFile(directory, name) {
  file_.preallocate(bytes);
}

StoreFile::StoreFile(StoreFile&& other) noexcept
    : file_(std::move(other.file_)), owned_(std::exchange(other.owned_, false)) {}

StoreFile::~StoreFile() {
  if (owned_) unlink(file_.path().c_str());
}

FoundStoreFile::FoundStoreFile(std::string path)
    : path_(std::move(path)), descriptor_(open_file(path_, O_RDONLY)) {
  if (!descriptor_.is_open()) throw_error<IoError>("open {}: {}", path_, errno_text(errno));
  in_use_ = !take_lock(descriptor_, path_);
}

std::int64_t FoundStoreFile::bytes() const { return status_of(descriptor_, path_).st_size; }

std::int64_t FoundStoreFile::allocated_bytes() const {
  return status_of(descriptor_, path_).st_blocks * kStatBlockBytes;
}

std::int64_t FoundStoreFile::read(std::int64_t offset_bytes,
                                  std::span<std::byte> destination) const {
  std::size_t done = 0;
  while (done < destination.size()) {
    const ssize_t count =
        pread(descriptor_.get(), destination.data() + done, destination.size() - done,
              offset_bytes + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw request_error(Operation::read, path_, offset_bytes, std::ssize(destination),
                          errno_text(errno));
    }
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

void FoundStoreFile::remove() {
  STRATA_CHECK(!in_use_, "{} is in use", path_);
  if (unlink(path_.c_str()) != 0) throw_error<IoError>("delete {}: {}", path_, errno_text(errno));
}

}  // namespace strata::io
