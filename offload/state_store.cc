#include "offload/state_store.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::offload {

namespace {

// Where to go on from after damage.
const char* advice(Durability durability) {
  return durability == Durability::none
             ? "start this run anew, on another directory of --nvme if it is not sound"
             : "see with strata verify whether the state to resume from is sound";
}

}  // namespace

StateStore::StateStore(const Plan& plan, Device& device, io::Storage* storage, WorkerSet& workers)
    : plan_(plan),
      storage_(storage),
      extents_(plan),
      slots_(plan),
      resident_offsets_(plan.units.size()),
      checksum_memory_(device.allocate_pinned(kChecksumsTag, plan.checksum_bytes())),
      checksums_(extents_, checksum_memory_.span(), workers) {
  for (auto& written : device_writes_) written = device.make_event();
  for (std::size_t k = 0; k < kStateKinds; ++k) {
    const auto kind = static_cast<StateKind>(k);
    std::int64_t device_bytes = 0;
    std::int64_t host_bytes = 0;
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      if (plan.units[u].tier(kind) == Tier::nvme) continue;
      std::int64_t& end = plan.units[u].tier(kind) == Tier::device ? device_bytes : host_bytes;
      resident_offsets_[u][k] = end;
      end += plan.shard_bytes(plan.units[u], kind);
    }
    if (device_bytes > 0) device_[k] = device.allocate(name_of(kind), device_bytes);
    if (host_bytes > 0) host_[k] = device.allocate_pinned(name_of(kind), host_bytes);
  }
  STRATA_CHECK(extents_.bytes() == 0 ||
               (storage != nullptr && storage->capacity_bytes() >= extents_.bytes()));
}

void StateStore::note_device_write(Stream& stream, DeviceWriter writer) {
  stream.record(*device_writes_[static_cast<std::size_t>(writer)]);
}

void StateStore::wait_for_device_writes(Stream& stream) {
  for (const auto& written : device_writes_) stream.wait(*written, WaitFor::state_written);
}

StateStore::~StateStore() {
  for (const AlignedSpan& memory : registered_) storage_->unregister_memory(memory);
}

AlignedSpan StateStore::host(int unit, StateKind kind) const {
  STRATA_CHECK(tier(unit, kind) == Tier::host);
  const auto k = static_cast<std::size_t>(kind);
  return host_[k].span(resident_offsets_[static_cast<std::size_t>(unit)][k],
                       plan_.shard_bytes(this->unit(unit), kind));
}

std::byte* StateStore::device(int unit, StateKind kind) const {
  STRATA_CHECK(tier(unit, kind) == Tier::device);
  const auto k = static_cast<std::size_t>(kind);
  return device_[k].data() + resident_offsets_[static_cast<std::size_t>(unit)][k];
}

void StateStore::read(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan destination,
                      VerifiedReads& reads, Account account) {
  const int slot = kind == StateKind::gradients ? 0 : slots_.live(unit);
  read({extents_.id(unit, kind), offset_bytes, destination, slot}, reads, account);
}

void StateStore::write(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
                       io::IoGroup& group, Account account) {
  if (kind == StateKind::gradients) {
    STRATA_CHECK(offset_bytes == 0);
    checksums_.forget(extents_.id(unit, kind), 0);
    write({extents_.id(unit, kind), 0, source}, group, account);
    return;
  }
  const int slot = slots_.target(unit);
  STRATA_CHECK(plan_.durability != Durability::commits || slot != slots_.live(unit) ||
                   !slots_.is_protected(unit),
               "a commit rests on the only slot of {}", this->unit(unit).name);
  write_lasting({extents_.id(unit, kind), offset_bytes, source, slot}, group, account);
}

void StateStore::write_copy(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
                            io::IoGroup& group) {
  STRATA_CHECK(tier(unit, kind) != Tier::nvme);
  write_lasting({extents_.id(unit, kind), offset_bytes, source, slots_.live(unit)}, group,
                Account::commit);
}

void StateStore::write_lasting(const ExtentRange& range, io::IoGroup& group, Account account) {
  STRATA_CHECK(plan_.durability == Durability::none || group.reports_to(lasting_writes_),
               "a commit would not wait for this write of extent {}", range.extent);
  write(range, group, account);
}

void StateStore::read_record(int record, AlignedSpan destination, VerifiedReads& reads) {
  read({extents_.id_of_record(record), 0, destination}, reads, Account::pass);
}

void StateStore::write_record(int record, AlignedSpan source, io::IoGroup& group) {
  write({extents_.id_of_record(record), 0, source}, group, Account::pass);
}

void StateStore::read(const ExtentRange& range, VerifiedReads& reads, Account account) {
  if (range.memory.bytes() == 0) return;
  ledger_.add(account, Link::nvme_read, moved_kind(range.extent), range.memory.bytes());
  storage_->read(storage_offset(range.extent, range.slot) + range.first_byte, range.memory,
                 reads.add(*this, range));
}

void StateStore::write(const ExtentRange& range, io::IoGroup& group, Account account) {
  if (range.memory.bytes() == 0) return;
  checksums_.record(range);
  ledger_.add(account, Link::nvme_written, moved_kind(range.extent), range.memory.bytes());
  storage_->write(storage_offset(range.extent, range.slot) + range.first_byte, range.memory, group);
}

std::int64_t StateStore::storage_offset(int extent, int slot) const {
  const std::int64_t offset = extents_[extent].slot_offsets[static_cast<std::size_t>(slot)];
  STRATA_CHECK(offset != Extent::kElsewhere, "extent {} is not on NVMe", extent);
  return offset;
}

template <typename Visit>
void StateStore::for_live_slots(const Visit& visit) const {
  STRATA_CHECK(plan_.durability != Durability::none);
  for (int u = 0; u < std::ssize(plan_.units); ++u) {
    for (const StateKind kind : kLastingKinds) {
      visit(checksums_.of(extents_.id(u, kind), slots_.live(u)));
    }
  }
}

void StateStore::fill(store::CommitTable& table) const {
  slots_.fill(table.live_slots);
  auto next = table.checksums.begin();
  for_live_slots([&](std::span<const std::uint64_t> sums) {
    STRATA_CHECK(std::ssize(sums) <= table.checksums.end() - next &&
                     std::ranges::find(sums, std::uint64_t{0}) == sums.end(),
                 "a commit of state that was never written");
    next = std::ranges::copy(sums, next).out;
  });
  STRATA_CHECK(next == table.checksums.end());
}

void StateStore::adopt(const store::CommitTable& table) {
  slots_.adopt(table.live_slots);
  auto next = table.checksums.begin();
  for_live_slots([&](std::span<std::uint64_t> sums) {
    STRATA_CHECK(std::ssize(sums) <= table.checksums.end() - next);
    std::copy_n(next, sums.size(), sums.begin());
    next += std::ssize(sums);
  });
  STRATA_CHECK(next == table.checksums.end());
}

MovedKind StateStore::moved_kind(int extent) const {
  const auto kind = extents_[extent].kind;
  return kind ? moved(*kind) : MovedKind::activations;
}

void StateStore::verify(std::span<const ExtentRange> reads) const {
  const auto mismatch = checksums_.find_mismatch(reads);
  if (!mismatch) return;
  throw_error<IoError>(
      "read {}: {} bytes in {} are not those that were written there; the drive or the way to it "
      "damaged, lost or misplaced them: check its health and cables before using it again, and {}",
      describe(*mismatch), mismatch->bytes,
      storage_->locate(storage_offset(mismatch->extent, mismatch->slot) + mismatch->first_byte),
      advice(plan_.durability));
}

// "h.3, moment1, elements 262144 to 524287 of this rank's shard". In bytes where elements are none
// or, in gradients, of either length.
std::string StateStore::describe(const ChecksumTable::Mismatch& mismatch) const {
  const Extent& extent = extents_[mismatch.extent];
  const std::int64_t last_byte = mismatch.first_byte + mismatch.bytes - 1;
  if (!extent.kind) {
    return fmt::format("activation record {}, bytes {} to {}", extent.index, mismatch.first_byte,
                       last_byte);
  }
  const UnitPlan& unit = this->unit(extent.index);
  if (extent.kind == StateKind::gradients) {
    return fmt::format("{}, gradients, bytes {} to {} of this rank's shard", unit.name,
                       mismatch.first_byte, last_byte);
  }
  const std::int64_t first = mismatch.first_byte / extent.block_bytes * plan_.block_elements;
  const std::int64_t end = std::min(first + plan_.block_elements, unit.shard_elements);
  return fmt::format("{}, {}, elements {} to {} of this rank's shard", unit.name,
                     name_of(*extent.kind), first, end - 1);
}

void StateStore::register_memory(AlignedSpan memory) {
  if (storage_ == nullptr) return;
  storage_->register_memory(memory);
  registered_.push_back(memory);
}

}  // namespace strata::offload
