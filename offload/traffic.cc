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

const char* key_of(Link link) {
  constexpr std::array<const char*, kLinks> kKeys = {"nvme_read_bytes", "nvme_written_bytes",
                                                     "to_device_bytes", "from_device_bytes",
                                                     "gathered_bytes",  "reduced_bytes"};
  return kKeys[static_cast<std::size_t>(link)];
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

Traffic Ledger::total(Account account) const {
  Traffic total;
  const auto& counters = counters_[static_cast<std::size_t>(account)];
  for (std::size_t link = 0; link < counters.size(); ++link) {
    for (std::size_t kind = 0; kind < counters[link].size(); ++kind) {
      total.add(static_cast<Link>(link), static_cast<MovedKind>(kind),
                counters[link][kind].load(std::memory_order_relaxed));
    }
  }
  return total;
}

Traffic Ledger::total() const {
  Traffic all;
  for (int account = 0; account < kAccounts; ++account) {
    all += total(static_cast<Account>(account));
  }
  return all;
}

}  // namespace strata::offload
