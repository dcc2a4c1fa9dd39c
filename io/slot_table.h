// SlotTable: the bounded number of submissions that the engine of an EngineStorage may have to
// answer.
//
//   slot:  free ──take()──▶ in flight ──take_answered()──▶ answered ──release()──▶ free
//                            │     ▲                          │
//                            │     └────────renew_tag()───────┘
//                            └──abandon()──▶ abandoned, for good
//
// Every submission has a tag of its own, so that an answer that comes twice, late or to nothing is
// recognised, whatever its slot is used for meanwhile.
//
// The storage's lock guards all but take_answered() and renew_tag(). These are the reaper's, who
// must take no lock before it has told ThreadSanitizer which bytes the kernel has touched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "io/storage.h"
#include "io/transfer.h"

namespace strata::io {

// Between Engine::submit() and the answer it is the engine's, then the reaper's.
struct Slot {
  Transfer transfer;
  IoGroup* group = nullptr;
  std::exception_ptr failure;
  std::int64_t started_ns = 0;
  std::uint64_t submissions = 0;      // so far
  std::atomic<std::uint64_t> tag{0};  // of the submission in flight; 0: none is

  bool is_in_flight() const { return tag.load(std::memory_order_relaxed) != 0; }
};

// Slots handed to the engine, or answered by it, together.
class SlotBatch {
 public:
  static constexpr std::size_t kMax = 64;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kMax; }
  std::size_t count() const { return count_; }
  void push(Slot& slot) { slots_[count_++] = &slot; }
  std::span<Slot* const> span() const { return {slots_.data(), count_}; }

 private:
  std::array<Slot*, kMax> slots_;
  std::size_t count_ = 0;
};

class SlotTable {
 public:
  explicit SlotTable(int count);

  // No slot was free, and less than a quarter is yet.
  bool saturated() const { return saturated_; }
  bool has_free() const { return !free_.empty(); }
  int in_flight() const { return in_flight_; }  // the answered included

  // A free one, with a tag.
  Slot& take();
  // Returns whether it ended the saturation.
  bool release(const SlotBatch& slots);
  void abandon(Slot& slot);

  // Null: no submission with this tag is in flight.
  Slot* take_answered(std::uint64_t tag);
  void renew_tag(Slot& slot);

  Slot* oldest_in_flight();  // null: none is
  std::span<Slot> all() { return slots_; }

 private:
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  bool saturated_ = false;
  int in_flight_ = 0;
};

}  // namespace strata::io
