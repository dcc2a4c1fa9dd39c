#include "engine/run/stop_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace strata::engine {

namespace {

using Clock = StepDeadline::Clock;
using offload::Durability;

// What the pipe brings besides signals' numbers.
constexpr unsigned char kEnd = 0;
constexpr unsigned char kLookAgain = 255;

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

void handle(int signal) { tell(static_cast<unsigned char>(signal)); }

void open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_error<IoError>("pipe: {}", std::strerror(errno));
  read_end = ends[0];
  write_end = ends[1];
  ::fcntl(write_end, F_SETFL, O_NONBLOCK);
}

bool stays_ignored(int signal, const struct sigaction& before) {
  return before.sa_handler == SIG_IGN && signal != SIGUSR1 && signal != SIGUSR2;
}

std::string name_of(int signal) { return fmt::format("SIG{}", ::sigabbrev_np(signal)); }

}  // namespace

StopWatch::StopWatch(StopRules rules, StepRequests& requests, FailureLatch& failure)
    : rules_(std::move(rules)),
      requests_(requests),
      failure_(failure),
      deadline_(std::chrono::duration_cast<Clock::duration>(rules_.stop_within)) {
  open_pipe();
  thread_ = std::thread([this] { watch(); });
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (!stays_ignored(kSignals[i], before_[i])) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopWatch::~StopWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  tell(kEnd);
  thread_.join();
  ::close(read_end);
  ::close(write_end);
}

void StopWatch::step_begins(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  deadline_.step_begins(Clock::now());
  if (signal_ != 0) tell(kLookAgain);
}

void StopWatch::step_ended() {
  const std::lock_guard lock(mutex_);
  deadline_.step_ended(Clock::now());
}

void StopWatch::kept() {
  const std::lock_guard lock(mutex_);
  kept_ = true;
}

void StopWatch::committed(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  committed_step_ = step;
}

void StopWatch::run_ends() {
  const std::lock_guard lock(mutex_);
  over_ = true;
}

void StopWatch::copies_begin() {
  const std::lock_guard lock(mutex_);
  copies_ = true;
  if (signal_ != 0) say_copies_go_on();
}

std::string StopWatch::stopped_text(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  const std::string by = signal_ == 0 ? "" : fmt::format(" by {}", name_of(signal_));
  return fmt::format("stopped{} after step {}; resume with {}", by, step, resume_text());
}

std::string StopWatch::drop_text() const {
  const std::lock_guard lock(mutex_);
  return drop_text_locked();
}

std::string StopWatch::drop_text_locked() const {
  if (rules_.durability == Durability::none) {
    return fmt::format("interrupted by {}", name_of(signal_));
  }
  const std::string stopped = fmt::format("stopped by {}{}", name_of(signal_), dropped_where_);
  if (!kept_) return stopped + "; nothing is kept of it: start it again as it was started";
  std::string from;
  if (committed_step_) {
    from = fmt::format("from step {} ", *committed_step_);
  } else if (step_) {
    from = "from the start ";
  }
  return fmt::format("{}; resume {}with {}", stopped, from, resume_text());
}

void StopWatch::watch() {
  while (true) {
    pollfd pipe{read_end, POLLIN, 0};
    unsigned char what = kLookAgain;
    if (::poll(&pipe, 1, wait_ms()) > 0 && ::read(read_end, &what, 1) != 1) return;
    if (what == kEnd) return;
    if (what != kLookAgain) on_signal(what);
    const std::lock_guard lock(mutex_);
    drop_if_late();
  }
}

// Until there is something to do without a signal; -1: for ever.
int StopWatch::wait_ms() const {
  const std::lock_guard lock(mutex_);
  const auto at = deadline_.give_up_at();
  if (!at || !may_be_dropped()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*at - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

void StopWatch::on_signal(int signal) {
  const std::lock_guard lock(mutex_);
  if (signal == SIGUSR2) return ask_to_commit();
  if (!first_signal_at_) return ask_to_stop(signal);
  if (Clock::now() - *first_signal_at_ <= kSameSignal) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void StopWatch::ask_to_stop(int signal) {
  first_signal_at_ = Clock::now();
  signal_ = signal;
  deadline_.ask(*first_signal_at_);
  if (over_) {
    if (copies_) say_copies_go_on();
    return;
  }
  if (rules_.durability == Durability::none) return drop("");
  if (!step_) return drop(" before its first step");
  requests_.fetch_or(kStopRequest);
  if (rules_.durability == Durability::clean_mark) {
    say(
        fmt::format("{}: stopping at the end of the step, however long it takes: a run with "
                    "--checkpoint-every 0 can be resumed from nothing else",
                    name_of(signal)));
  } else {
    say(
        fmt::format("{}: stopping at the end of the step, if that comes within {:g} s "
                    "(--stop-within); once more to stop at once",
                    name_of(signal), rules_.stop_within.count()));
  }
}

void StopWatch::ask_to_commit() {
  if (rules_.durability == Durability::commits) {
    requests_.fetch_or(kCommitRequest);
    return;
  }
  if (std::exchange(told_no_commits_, true)) return;
  say(rules_.durability == Durability::none ? "SIGUSR2: no checkpoint, as there is no --run"
                                            : "SIGUSR2: no checkpoint, with --checkpoint-every 0");
}

bool StopWatch::may_be_dropped() const {
  return !over_ && rules_.durability == Durability::commits;
}

void StopWatch::drop_if_late() {
  const auto at = deadline_.give_up_at();
  if (!at || !may_be_dropped() || Clock::now() < *at) return;
  drop(deadline_.in_step()
           ? fmt::format(" in the middle of step {}, which would take longer than --stop-within",
                         *step_)
           : fmt::format(" after step {}, with no time left (--stop-within) for its checkpoint",
                         *step_));
}

void StopWatch::drop(std::string where) {
  over_ = true;
  dropped_where_ = std::move(where);
  const int code =
      rules_.durability == Durability::none ? kExitSignalled + signal_ : kExitResumable;
  failure_.set(std::make_exception_ptr(Interrupted(drop_text_locked(), code)));
}

void StopWatch::say_copies_go_on() const {
  say(
      fmt::format("{}: the run is complete, and ends when its portable checkpoints are written; "
                  "once more to give them up",
                  name_of(signal_)));
}

std::string StopWatch::resume_text() const {
  return fmt::format("strata train --run {} --resume", rules_.run);
}

void StopWatch::say(std::string_view text) const {
  if (rules_.say) rules_.say(text);
}

}  // namespace strata::engine
