#include "cuda_sim/block.h"

#include <algorithm>
#include <utility>

#include "cuda_sim/report.h"

namespace strata::cuda_sim {
namespace {

// What a thread waits for that may run, and that is done.
constexpr std::uint32_t kStarted = 1;
constexpr std::uint32_t kNever = 0;

}  // namespace

constinit thread_local Block* current_block = nullptr;

Block::Block()
    : threads_(kBlockThreadsMax),
      copies_(kBlockThreadsMax),
      warps_(kBlockThreadsMax / kLanes),
      shared_(std::make_unique<SharedBytes>()),
      stacks_(kBlockThreadsMax) {
  fibers_.reserve(kBlockThreadsMax);
  parked_.reserve(kBlockThreadsMax);
}

Block::~Block() = default;

void Block::run_grid(const cuda::LaunchSize& size, Kernel kernel, const void* closure) {
  size_ = size;
  kernel_ = kernel;
  closure_ = closure;
  index_ = {};
  thread_ = 0;
  current_block = this;
  for (index_.z = 0; index_.z < size.blocks_z; ++index_.z) {
    for (index_.y = 0; index_.y < size.blocks_y; ++index_.y) {
      for (index_.x = 0; index_.x < size.blocks_x; ++index_.x) run_block();
    }
  }
  current_block = nullptr;
}

void Block::run_block() {
  std::fill_n(threads_.begin(), size_.threads, Thread{&kStarted, 0, nullptr, {}});
  std::memset(shared_memory(), kUndefined, static_cast<std::size_t>(size_.shared_bytes));
  const bool forward = (index_.x + index_.y + index_.z) % 2 == 0;
  direction_ = forward ? 1 : -1;
  done_ = 0;
  Fiber::switch_to(outside_, fiber_to_run(forward ? 0 : size_.threads - 1));
}

// A fiber runs one thread after the other that has not started; when the next has, or none is left,
// it parks, and goes on here when it is needed for a thread again.
void Block::fiber_main() {
  while (true) {
    Block& block = *current_block;
    block.kernel_(block.closure_);
    if (!block.copies_of_thread().empty()) report("a thread ends before its async_wait()");
    Thread& self = block.threads_[static_cast<std::size_t>(block.thread_)];
    Fiber& fiber = *std::exchange(self.fiber, nullptr);
    self.waits_for = &kNever;
    self.seen = kNever;
    ++block.done_;
    const int next = block.next_thread();
    if (next < 0 && block.done_ < block.size_.threads) block.report_missed();
    block.parked_.push_back(&fiber);
    Fiber& to = next < 0 ? block.outside_ : block.fiber_to_run(next);
    if (&to != &fiber) Fiber::switch_to(fiber, to);
  }
}

Fiber& Block::parked_fiber() {
  if (parked_.empty()) {
    const auto i = static_cast<int>(fibers_.size());
    parked_.push_back(
        fibers_.emplace_back(std::make_unique<Fiber>(stacks_.open(i), &fiber_main)).get());
  }
  Fiber* const fiber = parked_.back();
  parked_.pop_back();
  return *fiber;
}

// Makes `thread` the one that runs.
Fiber& Block::fiber_to_run(int thread) {
  thread_ = thread;
  Thread& next = threads_[static_cast<std::size_t>(thread)];
  if (next.fiber == nullptr) next.fiber = &parked_fiber();
  return *next.fiber;
}

void Block::wait(Meeting& meeting, const Place& place) {
  Thread& self = threads_[static_cast<std::size_t>(thread_)];
  self.waits_for = &meeting.round;
  self.seen = meeting.round;
  self.place = place;
  const int next = next_thread();
  if (next < 0) report_missed();
  Fiber::switch_to(*self.fiber, fiber_to_run(next));
}

// Those of the same warp come first: they are what a shuffle waits for.
int Block::next_thread() const {
  const auto may_run = [this](int thread) {
    const Thread& candidate = threads_[static_cast<std::size_t>(thread)];
    return *candidate.waits_for != candidate.seen;
  };
  const int warp_begin = thread_ / kLanes * kLanes;
  for (int step = 1; step < kLanes; ++step) {
    const int thread = warp_begin + ((thread_ + direction_ * step) & (kLanes - 1));
    if (may_run(thread)) return thread;
  }
  for (int step = kLanes; step < size_.threads; step += kLanes) {
    const int begin = (warp_begin + direction_ * step + size_.threads) % size_.threads;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int thread = begin + (direction_ > 0 ? lane : kLanes - 1 - lane);
      if (may_run(thread)) return thread;
    }
  }
  return -1;
}

void Block::async_wait() {
  for (const AsyncCopy& copy : copies_of_thread()) std::memcpy(copy.to, copy.bytes, kAsyncBytes);
  copies_of_thread().clear();
}

std::string Block::whereabouts() const {
  return fmt::format("kernel launched at {}:{}, block ({}, {}, {}), thread {}",
                     size_.where.file_name(), size_.where.line(), index_.x, index_.y, index_.z,
                     thread_);
}

void Block::report_elsewhere(const Place& first, const Place& place) const {
  report(
      "barrier not reached by all: {} at {}:{} was reached by others, and {} at {}:{} by this one",
      first.what, first.file, first.line, place.what, place.file, place.line);
}

void Block::report_missed() const {
  std::string text;
  for (int begin = 0; begin < size_.threads;) {
    const auto state = [this](int thread) {
      const Thread& at = threads_[static_cast<std::size_t>(thread)];
      return at.fiber == nullptr
                 ? std::string("ended")
                 : fmt::format("wait at {} at {}:{}", at.place.what, at.place.file, at.place.line);
    };
    int end = begin + 1;
    while (end < size_.threads && state(end) == state(begin)) ++end;
    text += fmt::format("\n  threads {} to {} {}", begin, end - 1, state(begin));
    begin = end;
  }
  report("barrier not reached by all:{}", text);
}

}  // namespace strata::cuda_sim
