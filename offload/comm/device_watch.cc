#ifdef STRATA_HAVE_MPI
#include "offload/comm/device_watch.h"

namespace strata::comm {

void DeviceWatch::look(Heartbeat& heartbeat, Nanoseconds now) {
  DeviceCollectives::Counts counts;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    Kind& kind = kinds_[i];
    const std::uint64_t complete = collectives_->kinds[i].complete.load(std::memory_order_acquire);
    const std::uint64_t begun = collectives_->kinds[i].begun.load(std::memory_order_acquire);
    if (begun != kind.begun || complete != kind.complete) kind = {begun, complete, now};
    counts[i] = begun;
  }
  heartbeat.tell(counts);
  if (error_) return;
  if (auto text = collectives_->error()) error_ = {std::move(*text), now};
}

std::optional<DeviceWatch::UnderWay> DeviceWatch::longest(Nanoseconds now) const {
  std::optional<UnderWay> found;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const Kind& kind = kinds_[i];
    if (kind.begun == kind.complete || (found && now - kind.since <= found->duration)) continue;
    found = {i, kind.complete + 1, now - kind.since};
  }
  return found;
}

std::vector<int> DeviceWatch::missing(const UnderWay& it, const Heartbeat& heartbeat,
                                      int world_size) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    if (heartbeat.told(rank)[it.kind] < it.number) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI
