// The loop of the communication thread, and what it watches.
#ifdef STRATA_HAVE_MPI
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/comm/comm_thread.h"

namespace strata::comm {
namespace {

using namespace std::chrono_literals;

// A test that finds nothing is followed by a sleep of a fixed part of the time waited so far: it
// delays a message by that part at most, and a long wait costs almost no processor time.
constexpr std::chrono::nanoseconds kNoSleepBefore = 20us;
constexpr int kSleepPart = 16;
constexpr std::chrono::nanoseconds kSleepMin = 5us;
constexpr std::chrono::nanoseconds kSleepMax = 1ms;
constexpr std::chrono::nanoseconds kPartingSleep = 1ms;
// A peer whose heartbeat is this many periods old has stopped; a fresher one is only slow.
constexpr int kStalePeriods = 3;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::chrono::nanoseconds sleep_after(std::chrono::nanoseconds waited) {
  return waited < kNoSleepBefore ? 0ns : std::clamp(waited / kSleepPart, kSleepMin, kSleepMax);
}

}  // namespace

void CommThread::serve() {
  Nanoseconds last_move{0};
  while (true) {
    const Nanoseconds sleep_max =
        exchange_under_way() ? sleep_after(now_ - last_move) : heartbeat_->period() / 4;
    switch (take_orders(sleep_max)) {
      case Order::none:
        break;
      case Order::leave_together:
        return part();
      case Order::leave_alone:
        return;
      case Order::abort:
        MPI_Abort(MPI_COMM_WORLD, exit_code_);
        return;
    }
    if (serve_once()) last_move = now_;
  }
}

// One look at everything that is under way; true when something moved.
bool CommThread::serve_once() {
  if (!dropping_ && failure_.failed()) drop_all();
  if (dropping_) return false;
  bool moved = false;
  try {
    tick();
    for (Lane& lane : lanes_) {
      if (lane.exchange() != nullptr) moved |= advance(lane);
    }
    if (device_watch_) device_watch_->look(*heartbeat_, now_);
    heartbeat_->progress(now_);
    check_liveness();
    check_device();
  } catch (...) {
    failure_.set(std::current_exception());
    drop_all();
  }
  return moved;
}

CommThread::Order CommThread::take_orders(Nanoseconds sleep_max) {
  std::unique_lock lock(mutex_);
  if (sleep_max > 0ns) {
    orders_.wait_for(lock, sleep_max, [&] { return woken_ || order_ != Order::none; });
  }
  woken_ = false;
  for (Exchange* exchange : submitted_) {
    const auto free = std::ranges::find(lanes_, nullptr, &Lane::exchange);
    free->start(*exchange, now_);
  }
  submitted_.clear();
  if (to_watch_) device_watch_.emplace(std::move(to_watch_));
  return order_;
}

bool CommThread::advance(Lane& lane) {
  Exchange& exchange = *lane.exchange();
  const std::int64_t rounds_before = exchange.completed_rounds();
  const bool moved = lane.advance(now_);
  const bool complete = lane.complete();
  if (complete || exchange.completed_rounds() > rounds_before) {
    const std::lock_guard lock(mutex_);
    if (complete) {
      exchange.state_ = Exchange::State::finished;
      --under_way_;
      lane.clear();
    }
    progress_.notify_all();
  }
  return moved;
}

bool CommThread::exchange_under_way() const {
  return std::ranges::any_of(lanes_, [](const Lane& lane) { return lane.exchange() != nullptr; });
}

// Leaves with the others: nobody may finalise MPI while another still needs it.
void CommThread::part() {
  heartbeat_->begin_farewell();
  while (true) {
    serve_once();
    if (dropping_) return;
    if (heartbeat_->farewell_complete()) break;
    std::this_thread::sleep_for(kPartingSleep);
  }
  enter(Phase::finalising);
  heartbeat_->close();
  MPI_Finalize();
}

void CommThread::drop_all() {
  const std::lock_guard lock(mutex_);
  dropping_ = true;
  for (Lane& lane : lanes_) {
    if (lane.exchange() != nullptr) lane.exchange()->state_ = Exchange::State::dropped;
    lane.clear();
  }
  for (Exchange* exchange : submitted_) exchange->state_ = Exchange::State::dropped;
  submitted_.clear();
  progress_.notify_all();
}

// This thread looks at least every quarter period; a longer gap was its own, not its peers'.
void CommThread::tick() {
  const auto clock = std::chrono::steady_clock::now();
  now_ += std::min<Nanoseconds>(clock - last_tick_, heartbeat_->period());
  last_tick_ = clock;
}

void CommThread::check_liveness() const {
  for (const Lane& lane : lanes_) {
    if (lane.exchange() == nullptr || now_ - lane.last_progress() <= timeout_) continue;
    const auto silent = silent_peers(kStalePeriods * heartbeat_->period());
    if (!silent.empty()) report_silent(silent, lane.exchange()->name());
    report_missing(lane.exchange()->name(), now_ - lane.last_progress(), lane.missing_peers());
  }
  const auto silent = silent_peers(timeout_);
  if (silent.empty()) return;
  report_silent(silent, collective_under_way());
}

// The library's error says little of whose fault it is: a rank that is gone is given the time to
// show it.
void CommThread::check_device() const {
  if (!device_watch_) return;
  const auto under_way = device_watch_->longest(now_);
  const char* const during = collective_under_way();
  const bool stuck = under_way && under_way->duration > timeout_;
  const auto& error = device_watch_->error();
  if (!stuck && !error) return;
  const auto silent = silent_peers(kStalePeriods * heartbeat_->period());
  if (!silent.empty()) report_silent(silent, during);
  if (error && now_ - error->seen > (kStalePeriods + 2) * heartbeat_->period()) {
    throw_error<CommError>("{} failed on rank {}: {}", during == nullptr ? "NCCL" : during,
                           topology_.rank, error->text);
  }
  if (!stuck) return;
  const auto missing = device_watch_->missing(*under_way, *heartbeat_, topology_.world_size);
  if (!missing.empty()) report_missing(under_way->name(), under_way->duration, missing);
  throw_error<CommError>(
      "{} has been under way for {:.1f} s (--comm-timeout {:.3g} s) on rank {}, though all ranks "
      "take part: see what NCCL_DEBUG=INFO says, or raise --comm-timeout if it is only slow",
      under_way->name(), seconds(under_way->duration), seconds(timeout_), topology_.rank);
}

// For people; null: none.
const char* CommThread::collective_under_way() const {
  for (const Lane& lane : lanes_) {
    if (lane.exchange() != nullptr) return lane.exchange()->name();
  }
  const auto of_device = device_watch_ ? device_watch_->longest(now_) : std::nullopt;
  return of_device ? of_device->name() : nullptr;
}

std::vector<int> CommThread::silent_peers(Nanoseconds limit) const {
  std::vector<int> peers;
  for (int peer = 0; peer < topology_.world_size; ++peer) {
    if (peer != topology_.rank && heartbeat_->silence(peer, now_) > limit) peers.push_back(peer);
  }
  return peers;
}

void CommThread::report_silent(std::span<const int> peers, const char* during) const {
  const bool one = peers.size() == 1;
  throw_error<CommError>(
      "rank{} {} {} not answered for {:.1f} s (--comm-timeout {:.3g} s) {}: {} stopped, stuck or "
      "gone with {} host",
      one ? "" : "s", fmt::join(peers, ", "), one ? "has" : "have",
      seconds(heartbeat_->silence(peers.front(), now_)), seconds(timeout_),
      during == nullptr ? std::string("between collectives") : fmt::format("in {}", during),
      one ? "it is" : "they are", one ? "its" : "their");
}

void CommThread::report_missing(const char* collective, Nanoseconds waited,
                                std::span<const int> peers) const {
  const bool one = peers.size() == 1;
  throw_error<CommError>(
      "{} has waited {:.1f} s (--comm-timeout {:.3g} s) for rank{} {}, which answer{} but did not "
      "take part: see what holds it up, or raise --comm-timeout if it is only slow",
      collective, seconds(waited), seconds(timeout_), one ? "" : "s", fmt::join(peers, ", "),
      one ? "s" : "");
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI
