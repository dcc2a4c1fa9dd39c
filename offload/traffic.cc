#include "offload/traffic.h"

#include "kernels/base/error.h"

namespace strata::offload {

const char* name_of(Link link) {
  switch (link) {
    case Link::nvme_read:
      return "NVMe read";
    case Link::nvme_written:
      return "NVMe written";
    case Link::to_device:
      return "host to device";
    case Link::from_device:
      return "device to host";
    case Link::gathered:
      return "all-gather received";
    case Link::reduced:
      return "reduce-scatter received";
  }
  STRATA_CHECK(false, "link {}", static_cast<int>(link));
}

const char* name_of(MovedKind kind) {
  switch (kind) {
    case MovedKind::activations:
      return "activations";
    case MovedKind::batch:
      return "batch";
    default:
      return name_of(static_cast<StateKind>(kind));
  }
}

std::int64_t Traffic::bytes(Link link) const {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : bytes_[static_cast<std::size_t>(link)]) sum += bytes;
  return sum;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t link = 0; link < bytes_.size(); ++link) {
    for (std::size_t kind = 0; kind < bytes_[link].size(); ++kind) {
      bytes_[link][kind] += other.bytes_[link][kind];
    }
  }
  return *this;
}

Traffic& Traffic::operator-=(const Traffic& other) {
  for (std::size_t link = 0; link < bytes_.size(); ++link) {
    for (std::size_t kind = 0; kind < bytes_[link].size(); ++kind) {
      bytes_[link][kind] -= other.bytes_[link][kind];
    }
  }
  return *this;
}

}  // namespace strata::offload
