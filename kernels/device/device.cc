#include "kernels/device/device.h"

#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata {

const char* name_of(WaitFor reason) {
  switch (reason) {
    case WaitFor::weights_ready:
      return "wait: weights ready";
    case WaitFor::slot_free:
      return "wait: slot free";
    case WaitFor::shard_on_device:
      return "wait: shard on device";
    case WaitFor::gradients_ready:
      return "wait: gradients ready";
    case WaitFor::gradient_reduced:
      return "wait: gradient reduced";
    case WaitFor::gradient_slot_free:
      return "wait: gradient slot free";
    case WaitFor::activation_ready:
      return "wait: activation ready";
    case WaitFor::activation_written:
      return "wait: activation written";
    case WaitFor::activation_free:
      return "wait: activation free";
    case WaitFor::state_written:
      return "wait: state written";
  }
  return "wait";
}

DeviceBuffer::DeviceBuffer(Device& device, Reservation reservation, std::byte* data,
                           std::int64_t bytes)
    : device_(&device), reservation_(std::move(reservation)), data_(data), bytes_(bytes) {}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      reservation_(std::move(other.reservation_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::exchange(other.device_, nullptr);
    reservation_ = std::move(other.reservation_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

DeviceBuffer::~DeviceBuffer() { release(); }

void DeviceBuffer::release() noexcept {
  if (data_ != nullptr) device_->arena_free(data_, bytes_);
  device_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
  reservation_ = Reservation();
}

Device::Device(std::int64_t device_memory_bytes, Budget& host_budget)
    : device_budget_("device memory", device_memory_bytes), host_budget_(host_budget) {}

DeviceBuffer Device::allocate(std::string tag, std::int64_t bytes) {
  STRATA_CHECK(bytes >= 0, "{}: {} bytes", tag, bytes);
  const std::int64_t rounded_bytes = round_up(bytes, kAlignmentBytes);
  Reservation reservation = device_budget_.reserve(std::move(tag), rounded_bytes);
  if (rounded_bytes == 0) return {};
  std::byte* const data = arena_allocate(rounded_bytes);
  return {*this, std::move(reservation), data, rounded_bytes};
}

}  // namespace strata
