// Budget: the hard limit of one tier, and who holds what of it.
//
// Every byte of device and pinned host memory that a run uses is held by a Reservation with a tag.
// All reservations are made at start, from the plan; the step loop makes none. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace strata {

class Budget;

// Move-only; gives its bytes back when destroyed. The Budget must outlive it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  std::int64_t bytes() const { return bytes_; }

 private:
  friend class Budget;
  Reservation(Budget& budget, std::string tag, std::int64_t bytes)
      : budget_(&budget), tag_(std::move(tag)), bytes_(bytes) {}
  Budget* budget_ = nullptr;
  std::string tag_;
  std::int64_t bytes_ = 0;
};

class Budget {
 public:
  // `tier` is the name that errors use ("device memory", "host memory").
  Budget(std::string tier, std::int64_t capacity_bytes);

  // Throws OutOfBudget naming tier, tag, bytes asked for, held and allowed.
  [[nodiscard]] Reservation reserve(std::string tag, std::int64_t bytes);

  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  std::int64_t held_bytes() const;
  std::int64_t peak_bytes() const;

  struct Entry {
    std::string tag;
    std::int64_t bytes;
  };
  // What is held now, summed by tag, in order of first reservation.
  std::vector<Entry> entries() const;

 private:
  friend class Reservation;
  void release(const std::string& tag, std::int64_t bytes) noexcept;

  std::string tier_;
  std::int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::int64_t held_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace strata
