// StateStore: this rank's shards of every state, each on the tier the plan gave it.
//
// Device and host states are resident in one buffer per kind; NVMe states are extents of the rank's
// Storage. Every shard is a whole number of pages long, on every tier. Activation records of the
// NVMe tier have their extents here too. Thread contract: addresses are fixed after construction;
// transfers are as thread-safe as Storage. Whoever reads a range has waited for the last write of
// it. Not here yet: names, slots and checksums of a store that outlives the run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "io/storage.h"
#include "kernels/device/device.h"
#include "offload/plan.h"

namespace strata::offload {

class StateStore {
 public:
  // `storage` may be null when the plan keeps nothing on NVMe. Reserves everything; throws
  // OutOfBudget.
  StateStore(const Plan& plan, Device& device, io::Storage* storage);

  const Plan& plan() const { return plan_; }
  const UnitPlan& unit(int unit) const { return plan_.units[static_cast<std::size_t>(unit)]; }
  Tier tier(int unit, StateKind kind) const { return this->unit(unit).tier(kind); }

  // The whole shard where it is resident; a programmer error on another tier.
  AlignedSpan host(int unit, StateKind kind) const;
  std::byte* device(int unit, StateKind kind) const;

  // NVMe tier only; bytes within the shard.
  void read(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan destination,
            io::IoGroup& group);
  void write(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
             io::IoGroup& group);

  void read_record(int record, AlignedSpan destination, io::IoGroup& group);
  void write_record(int record, AlignedSpan source, io::IoGroup& group);

 private:
  std::int64_t offset(int unit, StateKind kind) const {
    return offsets_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(kind)];
  }
  const Plan& plan_;
  io::Storage* storage_;
  std::array<DeviceBuffer, kStateKinds> device_;
  std::array<PinnedBuffer, kStateKinds> host_;
  std::vector<std::array<std::int64_t, kStateKinds>>
      offsets_;  // in the buffer or storage of a tier
  std::vector<std::int64_t> record_offsets_;
};

}  // namespace strata::offload
