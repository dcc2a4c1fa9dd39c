#include "engine/run/interrupt_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace strata::engine {

namespace {

constexpr unsigned char kStop = 0;  // no signal's number
constexpr std::chrono::seconds kSameSignal{1};

// A pipe that tells the thread of each signal, by its number. A handler can reach nothing but
// statics.
int read_end = -1;
int write_end = -1;

// Async-signal-safe, and leaves errno alone. A full pipe has told the thread enough.
void tell(unsigned char what) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(write_end, &what, 1);
  errno = error;
}

void on_signal(int signal) { tell(static_cast<unsigned char>(signal)); }

void open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_error<IoError>("pipe: {}", std::strerror(errno));
  read_end = ends[0];
  write_end = ends[1];
  ::fcntl(write_end, F_SETFL, O_NONBLOCK);
}

}  // namespace

Interrupted::Interrupted(int signal)
    : ExitError(fmt::format("interrupted by SIG{}", ::sigabbrev_np(signal)),
                kExitSignalled + signal) {}

InterruptWatch::InterruptWatch(FailureLatch& failure) {
  open_pipe();
  thread_ = std::thread([this, &failure] { watch(failure); });
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  tell(kStop);
  thread_.join();
  ::close(read_end);
  ::close(write_end);
}

void InterruptWatch::delete_on_signal(std::vector<std::string> paths) {
  const std::lock_guard lock(mutex_);
  paths_ = std::move(paths);
}

void InterruptWatch::delete_files() {
  const std::lock_guard lock(mutex_);
  for (const std::string& path : paths_) ::unlink(path.c_str());
}

void InterruptWatch::watch(FailureLatch& failure) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> first;
  unsigned char what = kStop;
  while (::read(read_end, &what, 1) == 1 && what != kStop) {
    if (!first) {
      first = Clock::now();
      failure.set(std::make_exception_ptr(Interrupted(what)));
      delete_files();
    } else if (Clock::now() - *first > kSameSignal) {
      ::signal(what, SIG_DFL);
      ::raise(what);
    }
  }
}

}  // namespace strata::engine
