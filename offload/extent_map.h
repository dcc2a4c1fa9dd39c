// ExtentMap: everything of one rank that may lie on NVMe, as numbered extents: the states of each
// unit, then the activation records. A pure function of the plan.
//
// In the storage the lasting states come first, slot by slot, then gradients, then records: in a
// durable run the place of what lasts does not depend on tiers.
//
// An extent is cut into blocks, from its start on, each with a checksum (checksum_table.h) per
// slot. Extents without a place in the storage have blocks too, so that the memory for checksums
// depends on the sizes of the model and on the durability alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/base/bytes.h"
#include "offload/plan.h"

namespace strata::offload {

struct Extent {
  static constexpr std::int64_t kElsewhere = -1;

  std::optional<StateKind> kind{};  // absent: an activation record
  int index = 0;                    // of the unit, or of the record
  std::int64_t bytes = 0;           // 0: there is no such state
  std::int64_t block_bytes = 0;
  std::int64_t first_block = 0;  // among those of all extents and slots; of slot 0
  int slots = 0;                 // in the storage
  // Of each slot, in the rank's storage; kElsewhere where there is no such slot.
  std::array<std::int64_t, kSlotsMax> slot_offsets{kElsewhere, kElsewhere};

  std::int64_t blocks() const { return bytes > 0 ? ceil_div(bytes, block_bytes) : 0; }  // of a slot
};

class ExtentMap {
 public:
  explicit ExtentMap(const Plan& plan);

  int id(int unit, StateKind kind) const { return unit * kStateKinds + static_cast<int>(kind); }
  int id_of_record(int record) const { return units_ * kStateKinds + record; }
  const Extent& operator[](int id) const { return extents_[static_cast<std::size_t>(id)]; }
  const Extent& of(int unit, StateKind kind) const { return (*this)[id(unit, kind)]; }

  std::int64_t bytes() const { return bytes_; }    // in the storage
  std::int64_t blocks() const { return blocks_; }  // of all extents and slots, on any tier

 private:
  void add(Extent extent);
  void place(int id, int slot);

  int units_;
  std::vector<Extent> extents_;
  std::int64_t bytes_ = 0;
  std::int64_t blocks_ = 0;
};

}  // namespace strata::offload
