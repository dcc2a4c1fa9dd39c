// StateStore: this rank's shards of every state, each on the tier the plan gave it.
//
// Device and host states are resident in one buffer per kind; NVMe states are extents of the rank's
// Storage, and so are the activation records of the NVMe tier. Every shard is a whole number of
// pages long, on every tier.
//
// In a durable run (Plan::durability) every lasting state has a place in the Storage besides, in
// one slot or two (live_slots.h). read() is of the live slot, write() goes to the target: until
// end_update() reads of a unit see the state before the update. A commit is the live slots, once
// what is resident was copied there.
//
// What is written to NVMe gets a checksum per block (XXH3, seeded with the block's place), kept in
// host memory apart from the data; what is read is checked against it when it is waited for
// (VerifiedReads). So bytes that changed on the drive, a write that was lost and one that went to
// another place end the run with an error that names them. Checksums are computed by the workers.
// A transfer covers whole blocks, or goes to the end of what was last written; gradients, which
// change their length, are written whole. Reading what was not written is a programmer error.
//
// Thread contract: addresses are fixed after construction; transfers are as thread-safe as Storage,
// and not made from a worker's tile. Whoever reads a range has waited for the last write of it.
// For slots see live_slots.h; fill() and adopt() while no lasting state is transferred. Nothing
// here allocates after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "offload/checksum_table.h"
#include "offload/extent_map.h"
#include "offload/live_slots.h"
#include "offload/plan.h"
#include "offload/store/superblock.h"
#include "offload/traffic.h"
#include "offload/verified_reads.h"

namespace strata::offload {

class StateStore {
 public:
  // `storage` may be null when the plan has no NVMe bytes. Reserves everything; throws OutOfBudget.
  StateStore(const Plan& plan, Device& device, io::Storage* storage, WorkerSet& workers);
  ~StateStore();  // what register_memory() named may be gone

  const Plan& plan() const { return plan_; }
  const UnitPlan& unit(int unit) const { return plan_.units[static_cast<std::size_t>(unit)]; }
  Tier tier(int unit, StateKind kind) const { return this->unit(unit).tier(kind); }

  // The whole shard where it is resident; a programmer error on another tier.
  AlignedSpan host(int unit, StateKind kind) const;
  std::byte* device(int unit, StateKind kind) const;

  // Of what has a place in the storage (Plan::slots); bytes within the shard. In a durable run
  // `group` reports to lasting_writes(), unless it is gradients that are written. The part of a
  // step names its account.
  void read(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan destination,
            VerifiedReads& reads, Account account = Account::other);
  void write(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
             io::IoGroup& group, Account account = Account::other);
  // Of a state that is resident, to the live slot: for a commit.
  void write_copy(int unit, StateKind kind, std::int64_t offset_bytes, AlignedSpan source,
                  io::IoGroup& group);
  // Everything that was written of lasting states: for whoever makes it durable.
  io::IoGroup& lasting_writes() { return lasting_writes_; }
  // The same for states on the device: each of its two writers tells when it has enqueued copies to
  // it, and a stream that reads them waits.
  enum class DeviceWriter : std::uint8_t { weights, optimizer };
  void note_device_write(Stream& stream, DeviceWriter writer);
  void wait_for_device_writes(Stream& stream);

  // Every write of an update of the unit has been submitted. Once per update.
  void end_update(int unit) { slots_.end_update(unit); }
  void protect_live_slots() { slots_.protect_all(); }
  int live_slot(int unit) const { return slots_.live(unit); }
  int target_slot(int unit) const { return slots_.target(unit); }
  bool is_protected(int unit) const { return slots_.is_protected(unit); }

  // The live slots and their checksums, into a table of the right size; the sequence number stays.
  // Every block of them was written.
  void fill(store::CommitTable& table) const;
  // The reverse, of a table that fits the store: from here on its slots are live, and protected.
  void adopt(const store::CommitTable& table);

  void read_record(int record, AlignedSpan destination, VerifiedReads& reads);
  void write_record(int record, AlignedSpan source, io::IoGroup& group);

  // Of reads that have arrived: for VerifiedReads. Throws IoError for the first block that is not
  // what was written.
  void verify(std::span<const ExtentRange> reads) const;

  // For memory that transfers will lie in (see Storage::register_memory).
  void register_memory(AlignedSpan memory);

  // What this rank moves: the store counts what it reads and writes, others their copies.
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  void read(const ExtentRange& range, VerifiedReads& reads, Account account);
  void write(const ExtentRange& range, io::IoGroup& group, Account account);
  void write_lasting(const ExtentRange& range, io::IoGroup& group, Account account);
  // Calls visit(checksums of the live slot) for each lasting state, in the order of commit tables.
  template <typename Visit>
  void for_live_slots(const Visit& visit) const;
  std::string describe(const ChecksumTable::Mismatch& mismatch) const;
  std::int64_t storage_offset(int extent, int slot) const;
  MovedKind moved_kind(int extent) const;

  const Plan& plan_;
  io::Storage* storage_;
  std::vector<AlignedSpan> registered_;
  ExtentMap extents_;
  LiveSlots slots_;
  io::IoGroup lasting_writes_;
  std::array<std::unique_ptr<Event>, 2> device_writes_;  // by writer
  // Device and host states: one buffer per kind, and where each unit's shard lies in it.
  std::array<DeviceBuffer, kStateKinds> device_;
  std::array<PinnedBuffer, kStateKinds> host_;
  std::vector<std::array<std::int64_t, kStateKinds>> resident_offsets_;
  PinnedBuffer checksum_memory_;
  ChecksumTable checksums_;
  Ledger ledger_;
};

}  // namespace strata::offload
