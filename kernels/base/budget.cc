#include "kernels/base/budget.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata {

Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      tag_(std::move(other.tag_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    if (budget_ != nullptr) budget_->release(tag_, bytes_);
    budget_ = std::exchange(other.budget_, nullptr);
    tag_ = std::move(other.tag_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Reservation::~Reservation() {
  if (budget_ != nullptr) budget_->release(tag_, bytes_);
}

Budget::Budget(std::string tier, std::int64_t capacity_bytes)
    : tier_(std::move(tier)), capacity_bytes_(capacity_bytes) {
  STRATA_CHECK(capacity_bytes >= 0, "{}: capacity {}", tier_, capacity_bytes);
}

Reservation Budget::reserve(std::string tag, std::int64_t bytes) {
  STRATA_CHECK(bytes >= 0, "{}: {} asks for {} bytes", tier_, tag, bytes);
  const std::lock_guard lock(mutex_);
  if (bytes > capacity_bytes_ - held_bytes_) {
    throw_error<OutOfBudget>(
        "{}: no room for {}: it needs {} ({} bytes), {} of the {} allowed ({} of {} bytes) are "
        "held",
        tier_, tag, format_bytes(bytes), bytes, format_bytes(held_bytes_),
        format_bytes(capacity_bytes_), held_bytes_, capacity_bytes_);
  }
  const auto entry = std::ranges::find(entries_, tag, &Entry::tag);
  if (entry == entries_.end()) {
    entries_.push_back({tag, bytes});
  } else {
    entry->bytes += bytes;
  }
  held_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return {*this, std::move(tag), bytes};
}

std::int64_t Budget::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

std::int64_t Budget::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

std::vector<Budget::Entry> Budget::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> held;
  std::ranges::copy_if(entries_, std::back_inserter(held),
                       [](const Entry& entry) { return entry.bytes > 0; });
  return held;
}

void Budget::release(const std::string& tag, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find(entries_, tag, &Entry::tag);
  STRATA_CHECK(entry != entries_.end() && entry->bytes >= bytes, "{}: {} is not held", tier_, tag);
  entry->bytes -= bytes;
  held_bytes_ -= bytes;
}

}  // namespace strata
