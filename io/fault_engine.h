// FaultEngine: an Engine on memory that misbehaves on purpose, from a seed. Without rules it is a
// drive that never fails. For tests of everything above it; not for production use.
//
//   submit ──▶ waiting ──due──▶ carried out ──▶ answered
//                                   ├──duplicate_completion──▶ answered ──▶ answered again
//                                   └──lost_completion──▶ (never answered)
//
// A request is decided upon when it is submitted and carried out when it is due, on the thread that
// waits for completions: memory used too early or given back too soon is used wrongly here, too.
// Requests due at the same time keep the order of their submission; delays reorder them.
//
// What a drive remembers of unflushed writes after a crash is not modelled here, but around it
// (crash_disk.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/engine.h"
#include "io/fault_rules.h"

namespace strata::io {

class FaultEngine final : public Engine {
 public:
  // Zeros, `capacity_bytes` rounded up to whole pages.
  FaultEngine(std::int64_t capacity_bytes, const FaultRules& rules);
  // With these contents, whole pages.
  FaultEngine(std::vector<std::byte> contents, const FaultRules& rules);

  Submission submit(std::span<const Request> requests) override;
  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override;
  // "faults of seed 7 on memory, 1 MiB", or "memory, 1 MiB" without any.
  std::string description() const override;

  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  // Everything but delays, in the order of submission. Thread-safe.
  std::vector<InjectedFault> injected() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Draw : std::uint8_t { fault, delay, place, second_delay };

  struct Event {
    Clock::time_point due;
    InjectedFault decision;
    Request request;
    bool is_repetition = false;  // of a completion: carried out already

    // Of the heap, whose front is its largest: the event due first.
    friend bool operator<(const Event& a, const Event& b) {
      if (a.due != b.due) return a.due > b.due;
      return a.decision.request > b.decision.request;
    }
  };

  // Under the lock.
  InjectedFault decide(const Transfer::Piece& piece);
  Fault decide_fault(std::int64_t request, const Transfer::Piece& piece);
  void push(const Event& event);

  // The waiting thread's. next(): nothing is due by `deadline`.
  std::optional<Event> next(Clock::time_point deadline);
  std::optional<Completion> carry_out(const Event& event);
  std::int32_t transfer(const Event& event);

  // Pure functions of the rules.
  std::uint64_t draw(std::int64_t request, Draw what) const;
  Fault drawn_fault(std::int64_t request) const;
  bool makes_sense(Fault fault, const Transfer::Piece& piece) const;
  std::int64_t misdirected_offset(std::int64_t request, const Transfer::Piece& piece) const;
  std::chrono::microseconds delay(std::int64_t request, Draw what) const;
  std::chrono::microseconds write_time(const Transfer::Piece& piece) const;

  const FaultRules rules_;
  std::vector<std::byte> memory_;  // the waiting thread's
  const std::int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable submitted_;
  std::vector<Event> events_;  // a heap
  std::vector<InjectedFault> injected_;
  std::int64_t requests_ = 0;
  std::int64_t reads_ = 0;
  std::int64_t accepted_bytes_ = 0;  // of writes
};

}  // namespace strata::io
