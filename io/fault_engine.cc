#include "io/fault_engine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"

namespace strata::io {
namespace {

constexpr std::size_t kEventsReserved = 1024;  // more than any storage has in flight
constexpr std::uint64_t kDrawsPerRequest = 4;

std::int64_t below(std::int64_t limit, std::uint64_t random) {
  return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(limit));
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void flip_bit(std::byte* data, std::int64_t bytes, std::uint64_t random) {
  const std::int64_t bit = below(bytes * 8, random);
  data[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace

FaultEngine::FaultEngine(std::int64_t capacity_bytes, const FaultRules& rules)
    : FaultEngine(
          std::vector<std::byte>(static_cast<std::size_t>(round_up(capacity_bytes, kPageBytes))),
          rules) {}

FaultEngine::FaultEngine(std::vector<std::byte> contents, const FaultRules& rules)
    : rules_(rules), memory_(std::move(contents)), capacity_bytes_(std::ssize(memory_)) {
  STRATA_CHECK(capacity_bytes_ % kPageBytes == 0);
  const auto& p = rules_.probability;
  STRATA_CHECK(std::accumulate(p.begin(), p.end(), 0.0) <= 1, "more than one fault of a request");
  events_.reserve(kEventsReserved);
}

std::string FaultEngine::description() const {
  const std::string memory = fmt::format("memory, {}", format_bytes(capacity_bytes_));
  if (rules_ == FaultRules{}) return memory;
  return fmt::format("faults of seed {} on {}", rules_.seed, memory);
}

std::vector<InjectedFault> FaultEngine::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

Engine::Submission FaultEngine::submit(std::span<const Request> requests) {
  const std::lock_guard lock(mutex_);
  for (const Request& request : requests) {
    const InjectedFault decision = decide(request.piece);
    if (decision.fault != Fault::none) injected_.push_back(decision);
    const auto due =
        Clock::now() + delay(decision.request, Draw::delay) + write_time(request.piece);
    push({due, decision, request});
  }
  return {requests.size(), 0};
}

void FaultEngine::push(const Event& event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end());
  submitted_.notify_one();
}

std::size_t FaultEngine::wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  std::size_t count = 0;
  while (count < completions.size()) {
    const std::optional<Event> event = next(count == 0 ? deadline : Clock::time_point::min());
    if (!event) break;
    if (const auto completion = carry_out(*event)) completions[count++] = *completion;
  }
  return count;
}

std::optional<FaultEngine::Event> FaultEngine::next(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (!events_.empty() && events_.front().due <= now) break;
    if (deadline <= now) return std::nullopt;
    const Clock::time_point due = events_.empty() ? deadline : events_.front().due;
    submitted_.wait_until(lock, std::min(deadline, due));
  }
  std::pop_heap(events_.begin(), events_.end());
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

std::optional<Engine::Completion> FaultEngine::carry_out(const Event& event) {
  const std::uint64_t tag = event.request.tag;
  const auto whole = static_cast<std::int32_t>(event.request.piece.span.bytes());
  if (event.is_repetition) return Completion{tag, whole};
  const std::int32_t result = transfer(event);
  if (event.decision.fault == Fault::lost_completion) return std::nullopt;
  if (event.decision.fault == Fault::duplicate_completion) {
    Event repetition = event;
    repetition.due += delay(event.decision.request, Draw::second_delay);
    repetition.is_repetition = true;
    const std::lock_guard lock(mutex_);
    push(repetition);
  }
  return Completion{tag, result};
}

std::int32_t FaultEngine::transfer(const Event& event) {
  const auto& [operation, offset_bytes, span] = event.request.piece;
  const std::int64_t request = event.decision.request;
  const std::uint64_t random = draw(request, Draw::place);
  std::int64_t bytes = span.bytes();
  std::byte* stored = memory_.data() + offset_bytes;
  switch (event.decision.fault) {
    case Fault::error:
      return -EIO;
    case Fault::full:
      return -ENOSPC;
    case Fault::interruption:
      return request % 2 == 0 ? -EINTR : -EAGAIN;
    case Fault::lost_write:
      return static_cast<std::int32_t>(bytes);
    case Fault::short_transfer:
      bytes = kPageBytes + below(bytes - kPageBytes, random);
      break;
    case Fault::misdirected_write:
      stored = memory_.data() + event.decision.stored_offset_bytes;
      break;
    default:
      break;
  }
  if (operation == Operation::read) copy_bytes(span.data(), stored, bytes);
  if (operation == Operation::write) copy_bytes(stored, span.data(), bytes);
  if (event.decision.fault == Fault::read_flip) flip_bit(span.data(), bytes, random);
  if (event.decision.fault == Fault::write_flip) flip_bit(stored, bytes, random);
  return static_cast<std::int32_t>(bytes);
}

InjectedFault FaultEngine::decide(const Transfer::Piece& piece) {
  const std::int64_t request = requests_++;
  const Fault fault = decide_fault(request, piece);
  if (piece.operation == Operation::read) ++reads_;
  if (piece.operation == Operation::write && fault != Fault::full) {
    accepted_bytes_ += piece.span.bytes();
  }
  return {
      request,
      fault,
      piece.operation,
      piece.offset_bytes,
      piece.span.bytes(),
      fault == Fault::misdirected_write ? misdirected_offset(request, piece) : piece.offset_bytes};
}

Fault FaultEngine::decide_fault(std::int64_t request, const Transfer::Piece& piece) {
  if (request == rules_.fail_request) return Fault::error;
  if (request == rules_.lose_completion) return Fault::lost_completion;
  if (piece.operation == Operation::read && reads_ == rules_.flip_read) return Fault::read_flip;
  if (piece.operation == Operation::write && rules_.full_after_bytes >= 0 &&
      accepted_bytes_ + piece.span.bytes() > rules_.full_after_bytes) {
    return Fault::full;
  }
  const Fault fault = drawn_fault(request);
  return makes_sense(fault, piece) ? fault : Fault::none;
}

Fault FaultEngine::drawn_fault(std::int64_t request) const {
  double uniform = static_cast<double>(draw(request, Draw::fault) >> 11) * 0x1p-53;
  for (std::size_t fault = 0; fault < kFaults; ++fault) {
    if (uniform < rules_.probability[fault]) return static_cast<Fault>(fault);
    uniform -= rules_.probability[fault];
  }
  return Fault::none;
}

bool FaultEngine::makes_sense(Fault fault, const Transfer::Piece& piece) const {
  switch (fault) {
    case Fault::short_transfer:
      return piece.span.bytes() > kPageBytes;
    case Fault::read_flip:
      return piece.operation == Operation::read;
    case Fault::misdirected_write:
      return piece.operation == Operation::write && piece.span.bytes() < capacity_bytes_;
    case Fault::write_flip:
    case Fault::lost_write:
      return piece.operation == Operation::write;
    default:
      return true;
  }
}

std::int64_t FaultEngine::misdirected_offset(std::int64_t request,
                                             const Transfer::Piece& piece) const {
  const std::int64_t places = (capacity_bytes_ - piece.span.bytes()) / kPageBytes + 1;
  const std::int64_t other = 1 + below(places - 1, draw(request, Draw::place));
  return (piece.offset_bytes / kPageBytes + other) % places * kPageBytes;
}

std::chrono::microseconds FaultEngine::write_time(const Transfer::Piece& piece) const {
  const bool is_write = piece.operation == Operation::write;
  return std::chrono::microseconds(
      is_write ? rules_.write_us_per_page * (piece.span.bytes() / kPageBytes) : 0);
}

std::chrono::microseconds FaultEngine::delay(std::int64_t request, Draw what) const {
  return std::chrono::microseconds(
      below(std::int64_t{rules_.delay_us_max} + 1, draw(request, what)));
}

std::uint64_t FaultEngine::draw(std::int64_t request, Draw what) const {
  const std::uint64_t before =
      static_cast<std::uint64_t>(request) * kDrawsPerRequest + static_cast<std::uint64_t>(what);
  return SplitMix64{rules_.seed + before * SplitMix64::kGamma}();
}

}  // namespace strata::io
