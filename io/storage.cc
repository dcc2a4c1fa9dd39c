#include <utility>

#include "io/storage.h"
#include "kernels/base/error.h"

namespace strata::io {

IoGroup::~IoGroup() {
  std::unique_lock lock(mutex_);
  wait_idle(lock);
}

void IoGroup::report_to(IoGroup& parent) {
  STRATA_CHECK(parent_ == nullptr && !pending());
  parent_ = &parent;
}

void IoGroup::wait() {
  std::exception_ptr failure;
  {
    std::unique_lock lock(mutex_);
    wait_idle(lock);
    failure = std::exchange(failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

bool IoGroup::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_ > 0;
}

void IoGroup::add(int requests) {
  if (parent_ != nullptr) parent_->add(requests);
  const std::lock_guard lock(mutex_);
  pending_ += requests;
}

// Notifies under the lock, and last: once it is released the waiter may destroy the group.
void IoGroup::complete(std::exception_ptr failure) {
  if (parent_ != nullptr) parent_->complete(failure);
  const std::lock_guard lock(mutex_);
  STRATA_CHECK(pending_ > 0, "a request completed twice");
  if (failure && !failure_) failure_ = std::move(failure);
  if (--pending_ == 0) changed_.notify_all();
}

void IoGroup::wait_idle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return pending_ == 0; });
}

std::string Storage::locate(std::int64_t offset_bytes) const {
  return fmt::format("{} at offset {}", device_path(0), offset_bytes);
}

StorageTraffic Storage::traffic() const {
  StorageTraffic total;
  for (int device = 0; device < devices(); ++device) total += device_traffic(device);
  return total;
}

}  // namespace strata::io
