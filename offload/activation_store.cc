#include "offload/activation_store.h"

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::offload {

ActivationStore::ActivationStore(StateStore& store, Device& device, Stream& compute,
                                 FailureLatch& failure, Tracer* tracer)
    : store_(store),
      plan_(store.plan()),
      compute_(compute),
      failure_(failure),
      load_row_(tracer, "act load"),
      store_row_(tracer, "act store"),
      main_row_(tracer, span_names::kMain),
      on_device_(plan_.activations == Tier::device),
      lookahead_(plan_.record_lookahead()),
      record_storing_(plan_.record_bytes.size(), 0),
      loader_("act load", failure, 4),
      storer_("act store", failure, 64) {
  std::int64_t all_bytes = 0;
  for (const std::int64_t bytes : plan_.record_bytes) {
    offsets_.push_back(all_bytes);
    all_bytes += round_up(bytes, kPageBytes);
  }
  if (on_device_) {
    memory_ = device.allocate("activations", all_bytes);
    return;
  }
  in_ = device.make_stream("act in");
  out_ = device.make_stream("act out");
  memory_ = device.allocate("activation slots", plan_.record_slots.bytes());
  if (plan_.activations == Tier::host) {
    host_records_ = device.allocate_pinned("activations", all_bytes);
  }
  slots_ = std::vector<Slot>(static_cast<std::size_t>(plan_.record_slots.count()));
  std::int64_t offset = 0;
  for (int s = 0; s < plan_.record_slots.count(); ++s) {
    Slot& slot = slots_[static_cast<std::size_t>(s)];
    const std::int64_t bytes = plan_.record_slots.slot_bytes(s);
    slot.data = memory_.data() + offset;
    offset += bytes;
    slot.loaded = device.make_event();
    slot.written = device.make_event();
    slot.emptied = device.make_event();
    slot.released = device.make_event();
    if (plan_.activations == Tier::nvme) {
      slot.staging = device.allocate_pinned("activation staging", bytes);
      store_.register_memory(slot.staging.span());
    }
  }
}

ActivationStore::~ActivationStore() = default;

AlignedSpan ActivationStore::host_side(int record, int slot) const {
  const auto r = static_cast<std::size_t>(record);
  const std::int64_t bytes = round_up(plan_.record_bytes[r], kPageBytes);
  return plan_.activations == Tier::host
             ? host_records_.span(offsets_[r], bytes)
             : slots_[static_cast<std::size_t>(slot)].staging.span(0, bytes);
}

void ActivationStore::begin(std::span<const ScheduledAccess> accesses) {
  if (on_device_) return;
  {
    const std::lock_guard lock(mutex_);
    accesses_.assign(accesses.begin(), accesses.end());
    opened_ = 0;
    closed_ = 0;
    loaded_ = 0;
    turn_ = accesses.empty() ? 0 : accesses.front().access.turn;
  }
  loader_.post([this] { load_all(); });
}

std::byte* ActivationStore::open(int record) {
  if (on_device_) return memory_.data() + offsets_[static_cast<std::size_t>(record)];
  const ScheduledAccess& access = accesses_[opened_];
  STRATA_CHECK(access.access.record == record, "access {} is of record {}, not {}", opened_,
               access.access.record, record);
  const auto index = opened_++;
  Slot& slot = slots_[static_cast<std::size_t>(access.slot)];
  {
    const TraceSpan span(main_row_, span_names::kWaitLoad);
    std::unique_lock lock(mutex_);
    turn_ = access.access.turn;
    changed_.notify_all();
    wait_unless_failed(changed_, lock, failure_, [&] { return loaded_ > index; });
  }
  // What the slot held before is copied out: load_all() waits for that.
  compute_.wait(*slot.loaded, WaitFor::activation_ready);
  return slot.data;
}

void ActivationStore::end_turn() {
  if (on_device_) return;
  for (; closed_ < opened_; ++closed_) {
    const ScheduledAccess& access = accesses_[closed_];
    Slot& slot = slots_[static_cast<std::size_t>(access.slot)];
    compute_.record(*slot.released);
    if (!access.store) continue;
    compute_.record(*slot.written);
    {
      const std::lock_guard lock(mutex_);
      ++slot.storing;
      ++record_storing_[static_cast<std::size_t>(access.access.record)];
    }
    storer_.post(
        [this, record = access.access.record, index = access.slot] { store(record, index); });
  }
  const std::lock_guard lock(mutex_);
  if (opened_ < accesses_.size()) turn_ = accesses_[opened_].access.turn;
  changed_.notify_all();
}

void ActivationStore::end() {
  if (on_device_) return;
  const TraceSpan span(main_row_, span_names::kWaitStore);
  loader_.wait_idle();
  storer_.wait_idle();
  failure_.check();
  STRATA_CHECK(opened_ == accesses_.size() && closed_ == opened_);
}

// Deals with every access in order, at most `lookahead_` turns before compute.
void ActivationStore::load_all() {
  for (std::size_t index = 0; index < accesses_.size(); ++index) {
    const ScheduledAccess& access = accesses_[index];
    {
      const TraceSpan span(load_row_, span_names::kWaitTurn);
      std::unique_lock lock(mutex_);
      wait_unless_failed(changed_, lock, failure_, [&] {
        if (access.access.turn > turn_ + lookahead_) return false;
        const bool only_reads_slot = !access.load && !access.access.write;
        return only_reads_slot ||
               (slots_[static_cast<std::size_t>(access.slot)].storing == 0 &&
                record_storing_[static_cast<std::size_t>(access.access.record)] == 0);
      });
    }
    if (access.load) load(access);
    const std::lock_guard lock(mutex_);
    loaded_ = index + 1;
    changed_.notify_all();
  }
}

void ActivationStore::load(const ScheduledAccess& access) {
  Slot& slot = slots_[static_cast<std::size_t>(access.slot)];
  const int record = access.access.record;
  const AlignedSpan host = host_side(record, access.slot);
  if (plan_.activations == Tier::nvme) {
    {
      const TraceSpan span(load_row_, span_names::kWaitStaging);
      slot.loaded->synchronize();  // the last copy from this staging buffer
    }
    const TraceSpan span(load_row_, span_names::kWaitRead);
    store_.read_record(record, host, load_io_);
    load_io_.wait();
  }
  in_->wait(*slot.released, WaitFor::activation_free);
  in_->copy(slot.data, host.data(), host.bytes());
  store_.ledger().add(Account::pass, Link::to_device, MovedKind::activations, host.bytes());
  in_->record(*slot.loaded);
}

void ActivationStore::store(int record, int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const AlignedSpan host = host_side(record, index);
  if (plan_.activations == Tier::nvme) {
    const TraceSpan span(store_row_, span_names::kWaitStaging);
    slot.loaded->synchronize();
  }
  out_->wait(*slot.written, WaitFor::activation_written);
  out_->copy(host.data(), slot.data, host.bytes());
  store_.ledger().add(Account::pass, Link::from_device, MovedKind::activations, host.bytes());
  out_->record(*slot.emptied);
  {
    const TraceSpan span(store_row_, span_names::kWaitCopyOut);
    slot.emptied->synchronize();
  }
  if (plan_.activations == Tier::nvme) {
    const TraceSpan span(store_row_, span_names::kWaitWrite);
    store_.write_record(record, host, store_io_);
    store_io_.wait();
  }
  const std::lock_guard lock(mutex_);
  --slot.storing;
  --record_storing_[static_cast<std::size_t>(record)];
  changed_.notify_all();
}

}  // namespace strata::offload
