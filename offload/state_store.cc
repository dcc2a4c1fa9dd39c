#include "offload/state_store.h"

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::offload {

StateStore::StateStore(const Plan& plan, Device& device, io::Storage* storage, WorkerSet&)
    : plan_(plan), storage_(storage), offsets_(plan.units.size()) {
  std::int64_t nvme_bytes = 0;
  for (int k = 0; k < kStateKinds; ++k) {
    const auto kind = static_cast<StateKind>(k);
    std::array<std::int64_t, kTiers> used{};
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      const Tier tier = plan.units[u].tier(kind);
      std::int64_t& end = tier == Tier::nvme ? nvme_bytes : used[static_cast<std::size_t>(tier)];
      offsets_[u][static_cast<std::size_t>(k)] = end;
      end += plan.shard_bytes(plan.units[u], kind);
    }
    if (used[0] > 0) {
      device_[static_cast<std::size_t>(k)] = device.allocate(name_of(kind), used[0]);
    }
    if (used[1] > 0) {
      host_[static_cast<std::size_t>(k)] = device.allocate_pinned(name_of(kind), used[1]);
    }
  }
  if (plan.activations == Tier::nvme) {
    for (const std::int64_t bytes : plan.record_bytes) {
      record_offsets_.push_back(nvme_bytes);
      nvme_bytes += round_up(bytes, kPageBytes);
    }
  }
  STRATA_CHECK(nvme_bytes == 0 || (storage != nullptr && storage->capacity_bytes() >= nvme_bytes));
}

AlignedSpan StateStore::host(int unit, StateKind kind) const {
  STRATA_CHECK(tier(unit, kind) == Tier::host);
  return host_[static_cast<std::size_t>(kind)].span(offset(unit, kind),
                                                    plan_.shard_bytes(this->unit(unit), kind));
}

std::byte* StateStore::device(int unit, StateKind kind) const {
  STRATA_CHECK(tier(unit, kind) == Tier::device);
  return device_[static_cast<std::size_t>(kind)].data() + offset(unit, kind);
}

void StateStore::read(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan destination,
                      VerifiedReads& reads) {
  STRATA_CHECK(tier(unit, kind) == Tier::nvme);
  storage_->read(offset(unit, kind) + offset_bytes, destination, reads.transfers_);
}

void StateStore::write(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
                       io::IoGroup& group) {
  STRATA_CHECK(tier(unit, kind) == Tier::nvme);
  storage_->write(offset(unit, kind) + offset_bytes, source, group);
}

void StateStore::read_record(int record, AlignedSpan destination, VerifiedReads& reads) {
  storage_->read(record_offsets_[static_cast<std::size_t>(record)], destination, reads.transfers_);
}

void StateStore::write_record(int record, AlignedSpan source, io::IoGroup& group) {
  storage_->write(record_offsets_[static_cast<std::size_t>(record)], source, group);
}

void VerifiedReads::wait() { transfers_.wait(); }

void StateStore::register_memory(AlignedSpan memory) {
  if (storage_ != nullptr) storage_->register_memory(memory);
}

KindTraffic StateStore::traffic() const { return {}; }

std::int64_t checksum_bytes(const Plan&) { return 0; }

}  // namespace strata::offload
