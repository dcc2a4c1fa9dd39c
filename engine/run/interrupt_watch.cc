#include "engine/run/interrupt_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace strata::engine {

namespace {

constexpr std::uint64_t kStop = 1 << 16;  // above every signal

// An eventfd, whose value tells the thread what happened. A handler can reach nothing but statics.
int wake_descriptor = -1;

// Async-signal-safe, and leaves errno alone. A full counter cannot be: it is read at once.
void wake(std::uint64_t value) {
  const int error = errno;
  if (::write(wake_descriptor, &value, sizeof value) < 0) return;
  errno = error;
}

void on_signal(int signal) { wake(static_cast<std::uint64_t>(signal)); }

}  // namespace

Interrupted::Interrupted(int signal)
    : Error(fmt::format("interrupted by SIG{}", ::sigabbrev_np(signal))), signal_(signal) {}

InterruptWatch::InterruptWatch(FailureLatch& failure) {
  wake_descriptor = ::eventfd(0, EFD_CLOEXEC);
  if (wake_descriptor < 0) throw_error<IoError>("eventfd: {}", std::strerror(errno));
  thread_ = std::thread([this, &failure] { watch(failure); });
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  wake(kStop);
  thread_.join();
  ::close(wake_descriptor);
  wake_descriptor = -1;
}

void InterruptWatch::watch(FailureLatch& failure) {
  for (std::uint64_t value = 0;;) {
    if (::read(wake_descriptor, &value, sizeof value) < 0) continue;  // EINTR
    if (value >= kStop) return;
    failure.set(std::make_exception_ptr(Interrupted(static_cast<int>(value))));
  }
}

}  // namespace strata::engine
