#include "engine/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/plain_file.h"
#include "io/transfer.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {
namespace {

std::string this_process() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

[[noreturn]] void throw_in_use(const std::string& run_folder, const std::string& path) {
  std::string holder = io::read_file(path).value_or("");
  while (holder.ends_with('\n')) holder.pop_back();
  throw_error<ConfigError>("--run {}: in use by {}; wait for its end, or choose another folder",
                           run_folder, holder.empty() ? "another process" : holder);
}

// False: whoever had it has removed the file meanwhile.
bool take_lock(const io::FileDescriptor& file, const std::string& run_folder,
               const std::string& path) {
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw_in_use(run_folder, path);
    if (errno != EINTR) throw_error<IoError>("lock {}: {}", path, io::errno_text(errno));
  }
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_nlink > 0;
}

}  // namespace

RunLock::RunLock(const std::string& run_folder) : path_(run_folder + "/" + kRunLockFile) {
  do {
    file_ = io::FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.is_open()) throw_error<IoError>("create {}: {}", path_, io::errno_text(errno));
  } while (!take_lock(file_, run_folder, path_));
  if (::ftruncate(file_.get(), 0) != 0) {
    throw_error<IoError>("truncate {}: {}", path_, io::errno_text(errno));
  }
  io::write_fully(file_.get(), this_process() + "\n", path_);
}

void RunLock::remove_file() noexcept { ::unlink(path_.c_str()); }

}  // namespace strata::engine
