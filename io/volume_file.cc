#include "io/volume_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "io/drive_space.h"
#include "io/scratch_file.h"
#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr int kLockTries = 200;
constexpr std::chrono::milliseconds kLockPause{5};
constexpr std::int64_t kStatBlockBytes = 512;  // the unit of st_blocks, whatever the file system

// False: another process has it, or nobody can tell.
bool take_lock(int descriptor, const std::string& path, VolumeAccess access) {
  const int operation = access == VolumeAccess::exclusive ? LOCK_EX : LOCK_SH;
  int error;
  do {
    error = flock(descriptor, operation | LOCK_NB) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EWOULDBLOCK && error != EBADF) {
    throw_error<IoError>("lock {}: {}", path, errno_text(error));
  }
  return error == 0;
}

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    throw_error<IoError>("stat {}: {}", path, errno_text(errno));
  }
  return status;
}

// Somebody who looks for dead files may have locked it for a moment: false only after a second.
bool take_lock_soon(int descriptor, const std::string& path, VolumeAccess access) {
  bool locked = take_lock(descriptor, path, access);
  for (int tries = 1; !locked && tries < kLockTries; ++tries) {
    std::this_thread::sleep_for(kLockPause);
    locked = take_lock(descriptor, path, access);
  }
  return locked;
}

[[noreturn]] void throw_exists(const std::string& path) {
  if (FoundVolumeFile(path).in_use()) {
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

// With its name from the start.
FileDescriptor create_locked(const std::string& directory, const std::string& path) {
  FileDescriptor descriptor = open_file(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT);
  if (!descriptor.is_open() && errno == EEXIST) throw_exists(path);
  if (!descriptor.is_open()) throw_directory_refused(directory, errno);
  try {
    const bool locked = take_lock_soon(descriptor.get(), path, VolumeAccess::exclusive);
    if (!locked || status_of(descriptor.get(), path).st_nlink == 0) {
      throw_error<IoError>("lock {}: another process is removing it; start again", path);
    }
    return descriptor;
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
}

DirectFile open_locked(const std::string& directory, const std::string& path) {
  FileDescriptor descriptor = open_nameless(directory);
  if (!descriptor.is_open()) {
    descriptor = create_locked(directory, path);
  } else if (access(path.c_str(), F_OK) == 0) {
    throw_exists(path);
  } else if (!take_lock(descriptor.get(), path, VolumeAccess::exclusive)) {
    throw_error<IoError>("lock {}: refused", path);
  }
  return DirectFile(std::move(descriptor), directory, path);
}

[[noreturn]] void throw_not_opened(const std::string& path, int error_number) {
  if (error_number == EINVAL) {
    throw_error<ConfigError>(
        "store file {}: the file system has no direct I/O (O_DIRECT); move it to ext4 or xfs",
        path);
  }
  throw_error<IoError>("open {}: {}{}", path, errno_text(error_number),
                       error_number == ENOENT ? "; is its drive mounted?" : "");
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0) throw_error<IoError>("delete {}: {}", path, errno_text(errno));
}

void delete_within_a_second(const std::string& path) noexcept {
  try {
    std::packaged_task<int()> deletion([path] { return unlink(path.c_str()); });
    const std::future<int> deleted = deletion.get_future();
    std::thread(std::move(deletion)).detach();
    deleted.wait_for(std::chrono::seconds(1));
  } catch (const std::exception&) {  // no thread to be had
    unlink(path.c_str());
  }
}

}  // namespace

VolumeFile::VolumeFile(const std::string& directory, const std::string& name)
    : file_(name.empty() ? open_scratch_file(directory)
                         : open_locked(directory, directory + "/" + name)),
      state_(name.empty() ? State::scratch : State::unpublished) {
  const bool has_name = status_of(file_.descriptor(), file_.path()).st_nlink > 0;
  if (has_name) state_ = State::published;
}

// Delegates so that the destructor deletes the file when its blocks cannot be reserved.
VolumeFile::VolumeFile(const std::string& directory, const std::string& name, std::int64_t bytes)
    : VolumeFile(directory, name) {
  preallocate(file_, bytes);
}

VolumeFile::VolumeFile(DirectFile file, State state) : file_(std::move(file)), state_(state) {}

VolumeFile VolumeFile::open(const std::string& path, VolumeAccess access, std::int64_t bytes) {
  const bool exclusive = access == VolumeAccess::exclusive;
  FileDescriptor descriptor = open_file(path, (exclusive ? O_RDWR : O_RDONLY) | O_DIRECT);
  if (!descriptor.is_open()) throw_not_opened(path, errno);
  if (!take_lock_soon(descriptor.get(), path, access)) {
    throw_error<ConfigError>("store file {}: another process {} it; wait until it has ended", path,
                             exclusive ? "uses or reads" : "uses");
  }
  const struct stat status = status_of(descriptor.get(), path);
  if (status.st_nlink == 0) throw_error<IoError>("open {}: it was deleted meanwhile", path);
  if (status.st_size < bytes) {
    throw_error<IoError>("open {}: it has {} bytes and should have {}; was it truncated?", path,
                         status.st_size, bytes);
  }
  const std::string directory = std::filesystem::path(path).parent_path();
  return VolumeFile(DirectFile(std::move(descriptor), directory.empty() ? "." : directory, path),
                    State::kept);
}

VolumeFile::VolumeFile(VolumeFile&& other) noexcept
    : file_(std::move(other.file_)), state_(std::exchange(other.state_, State::scratch)) {}

VolumeFile::~VolumeFile() {
  if (state_ == State::published) delete_within_a_second(file_.path());
}

void VolumeFile::publish() {
  if (state_ == State::scratch) return;
  if (state_ == State::unpublished) {
    const std::string nameless = fmt::format("/proc/self/fd/{}", file_.descriptor());
    if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, file_.path().c_str(), AT_SYMLINK_FOLLOW) !=
        0) {
      if (errno == EEXIST) throw_exists(file_.path());
      throw_error<IoError>("name {}: {}", file_.path(), errno_text(errno));
    }
    state_ = State::published;
  }
  flush_directory(file_.directory());
}

void VolumeFile::keep() noexcept {
  if (state_ == State::published) state_ = State::kept;
}

void VolumeFile::share_lock() {
  if (take_lock_soon(file_.descriptor(), file_.path(), VolumeAccess::shared)) return;
  throw_error<ConfigError>("store file {}: another process has taken it", file_.path());
}

void VolumeFile::remove() {
  remove_file(file_.path());
  state_ = State::scratch;
}

FoundVolumeFile::FoundVolumeFile(std::string path)
    : path_(std::move(path)), descriptor_(open_file(path_, O_RDWR)) {
  // NFS locks only what may be written; elsewhere reading is enough.
  if (!descriptor_.is_open()) descriptor_ = open_file(path_, O_RDONLY);
  if (!descriptor_.is_open()) throw_error<IoError>("open {}: {}", path_, errno_text(errno));
  in_use_ = !take_lock(descriptor_.get(), path_, VolumeAccess::shared);
}

std::int64_t FoundVolumeFile::allocated_bytes() const {
  return status_of(descriptor_.get(), path_).st_blocks * kStatBlockBytes;
}

std::int64_t FoundVolumeFile::read(std::int64_t offset_bytes,
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

void FoundVolumeFile::remove() {
  if (!take_lock_soon(descriptor_.get(), path_, VolumeAccess::exclusive)) {
    throw_error<ConfigError>("delete {}: another process uses or reads it", path_);
  }
  const bool is_gone = status_of(descriptor_.get(), path_).st_nlink == 0;
  if (!is_gone) remove_file(path_);
}

}  // namespace strata::io
