#include "offload/weight_streamer.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::offload {

Lease::~Lease() {
  if (streamer_ != nullptr) streamer_->release(slot_);
}

WeightStreamer::WeightStreamer(StateStore& store, Device& device, Stream& compute,
                               comm::Communicator& comm, FailureLatch& failure, Tracer* tracer)
    : store_(store),
      plan_(store.plan()),
      device_(device),
      compute_(compute),
      comm_(comm),
      failure_(failure),
      row_(tracer, span_names::kFetch),
      main_row_(tracer, span_names::kMain),
      slots_(static_cast<std::size_t>(plan_.weight_slots)),
      staging_(static_cast<std::size_t>(plan_.weight_staging_slots)),
      reads_(staging_.size()),
      writes_(plan_.units.size()),
      resident_ready_(device.make_event()),
      h2d_(device.make_stream("h2d")),
      fetch_thread_("fetch", failure, 4) {
  for (io::IoGroup& group : writes_) group.report_to(store_.lasting_writes());
  if (comm.world_size() > 1) gather_ = device.make_stream("gather");
  const std::int64_t element = element_bytes(StateKind::weights, plan_.dtypes);
  slot_bytes_ = plan_.unit_elements_max * element;
  slot_memory_ = device.allocate("gathered units", slot_bytes_ * plan_.weight_slots);
  for (Slot& slot : slots_) {
    slot.ready = device.make_event();
    slot.free = device.make_event();
    slot.shard_copied = device.make_event();
  }
  for (Staging& staging : staging_) {
    staging.buffer = device.allocate_pinned("weight staging",
                                            plan_.unit_elements_max / plan_.world_size * element);
    store_.register_memory(staging.buffer.span());
    staging.copied = device.make_event();
  }
}

WeightStreamer::~WeightStreamer() = default;

void WeightStreamer::begin(std::span<const ScheduledUse> uses, PendingUpdates* updates) {
  {
    const std::lock_guard lock(mutex_);
    uses_.assign(uses.begin(), uses.end());
    updates_ = updates;
    acquired_ = 0;
    fetched_ = 0;
  }
  in_flight_.assign(uses.size(), Use{});
  fetch_thread_.post([this] { fetch_all(); });
}

Lease WeightStreamer::acquire(int unit) {
  std::unique_lock lock(mutex_);
  const std::size_t index = acquired_;
  STRATA_CHECK(index < uses_.size() && uses_[index].unit == unit, "use {} is not unit {}", index,
               unit);
  ++acquired_;
  changed_.notify_all();
  {
    const TraceSpan span(main_row_, span_names::kWaitFetch);
    wait_unless_failed(changed_, lock, failure_, [&] { return fetched_ > index; });
  }
  const ScheduledUse& use = uses_[index];
  if (use.slot < 0) {
    lock.unlock();
    compute_.wait(*resident_ready_, WaitFor::weights_ready);
    return {*this, -1, store_.device(unit, StateKind::weights)};
  }
  Slot& slot = slots_[static_cast<std::size_t>(use.slot)];
  ++slot.leases;
  lock.unlock();
  compute_.wait(*slot.ready, WaitFor::weights_ready);
  return {*this, use.slot, slot_memory_.data() + use.slot * slot_bytes_};
}

void WeightStreamer::release(int slot) {
  if (slot < 0) return;
  compute_.record(*slots_[static_cast<std::size_t>(slot)].free);
  const std::lock_guard lock(mutex_);
  --slots_[static_cast<std::size_t>(slot)].leases;
  changed_.notify_all();
}

void WeightStreamer::end() {
  const TraceSpan span(main_row_, span_names::kWaitFetch);
  fetch_thread_.wait_idle();
  failure_.check();
  STRATA_CHECK(acquired_ == uses_.size(), "{} of {} uses were acquired", acquired_, uses_.size());
}

void WeightStreamer::flush() {
  const TraceSpan span(main_row_, span_names::kWaitWrite);
  for (io::IoGroup& group : writes_) group.wait();
  h2d_->synchronize();
}

void WeightStreamer::fetch_all() {
  issued_ = 0;
  staging_taken_ = 0;
  for (std::size_t use = 0; use < uses_.size(); ++use) {
    wait_allowed(use);
    issue_reads(use);
    fetch(use);
    const std::lock_guard lock(mutex_);
    fetched_ = use + 1;
    changed_.notify_all();
  }
}

void WeightStreamer::wait_allowed(std::size_t use) {
  const TraceSpan span(row_, span_names::kWaitTurn);
  std::unique_lock lock(mutex_);
  wait_unless_failed(changed_, lock, failure_,
                     [&] { return acquired_ + static_cast<std::size_t>(plan_.prefetch) > use; });
}

bool WeightStreamer::reads_nvme(const ScheduledUse& use) const {
  return !use.hit && store_.tier(use.unit, StateKind::weights) == Tier::nvme;
}

// Starts the reads of every use that compute's progress allows and a staging buffer is free for, up
// to one whose unit is still to be updated for an earlier use.
void WeightStreamer::issue_reads(std::size_t current) {
  std::size_t allowed;
  {
    const std::lock_guard lock(mutex_);
    allowed = std::min(uses_.size(), acquired_ + static_cast<std::size_t>(plan_.prefetch));
  }
  const std::size_t room = current + std::max<std::size_t>(1, staging_.size() - 1);
  for (issued_ = std::max(issued_, current); issued_ < std::min(allowed, room); ++issued_) {
    const ScheduledUse& use = uses_[issued_];
    if (!reads_nvme(use)) continue;
    if (awaits_update(current, issued_)) return;
    const int staging = take_staging();
    in_flight_[issued_].staging = staging;
    {
      const TraceSpan span(row_, span_names::kWaitWrite);
      writes_[static_cast<std::size_t>(use.unit)].wait();
    }
    store_.read(use.unit, StateKind::weights, 0, staged(use.unit, staging),
                reads_[static_cast<std::size_t>(staging)], Account::pass);
  }
}

// Whether an update of the unit that `use` reads comes first, with a use from `current` on.
bool WeightStreamer::awaits_update(std::size_t current, std::size_t use) const {
  const int unit = uses_[use].unit;
  if (updates_ == nullptr || !updates_->pending(unit)) return false;
  return std::any_of(uses_.begin() + static_cast<std::ptrdiff_t>(current),
                     uses_.begin() + static_cast<std::ptrdiff_t>(use),
                     [&](const ScheduledUse& earlier) { return earlier.unit == unit; });
}

// The next staging buffer, once nothing reads or writes it.
int WeightStreamer::take_staging() {
  const int index = static_cast<int>(staging_taken_++ % staging_.size());
  Staging& staging = staging_[static_cast<std::size_t>(index)];
  if (staging.unit >= 0) {
    const TraceSpan span(row_, span_names::kWaitStaging);
    staging.copied->synchronize();
    writes_[static_cast<std::size_t>(staging.unit)].wait();
  }
  staging.unit = -1;
  return index;
}

void WeightStreamer::fetch(std::size_t index) {
  const ScheduledUse& use = uses_[index];
  const bool pending = updates_ != nullptr && updates_->pending(use.unit);
  if (use.hit && !pending) return;
  const TraceSpan span(row_, pending ? "update and fetch" : "fetch");
  const Tier tier = store_.tier(use.unit, StateKind::weights);
  int staging = in_flight_[index].staging;
  const std::byte* shard = nullptr;
  if (tier == Tier::nvme) {
    const TraceSpan wait(row_, span_names::kWaitRead);
    reads_[static_cast<std::size_t>(staging)].wait();
    shard = staged(use.unit, staging).data();
  } else if (tier == Tier::host) {
    shard = store_.host(use.unit, StateKind::weights).data();
  } else {
    shard = store_.device(use.unit, StateKind::weights);
  }
  if (pending && store_.unit(use.unit).updated_on_device) {
    update_on_device(use.unit);
  } else if (pending) {
    if (tier == Tier::device) staging = take_staging();
    const AlignedSpan updated = update(use.unit, staging);
    if (tier != Tier::device) shard = updated.data();
  }
  if (use.slot >= 0) gather(use, shard);
  if (staging >= 0) {
    h2d_->record(*staging_[static_cast<std::size_t>(staging)].copied);
    staging_[static_cast<std::size_t>(staging)].unit = use.unit;
  }
}

// Applies the pending update; the result is in host memory and on its way to the shard's tier.
AlignedSpan WeightStreamer::update(int unit, int staging) {
  const Tier tier = store_.tier(unit, StateKind::weights);
  const AlignedSpan weights =
      tier == Tier::host ? store_.host(unit, StateKind::weights) : staged(unit, staging);
  if (tier == Tier::device) {
    h2d_->copy(weights.data(), store_.device(unit, StateKind::weights), weights.bytes());
    count(Account::update, Link::from_device, weights.bytes());
    h2d_->synchronize();
  }
  {
    const TraceSpan span(row_, span_names::kWaitUpdate);
    updates_->apply(unit, weights);
  }
  if (tier == Tier::nvme) {
    store_.write(unit, StateKind::weights, 0, weights, writes_[static_cast<std::size_t>(unit)],
                 Account::update);
  } else if (tier == Tier::device) {
    h2d_->copy(store_.device(unit, StateKind::weights), weights.data(), weights.bytes());
    count(Account::update, Link::to_device, weights.bytes());
    h2d_->record(*resident_ready_);
    store_.note_device_write(*h2d_, StateStore::DeviceWriter::weights);
  }
  store_.end_update(unit);
  return weights;
}

void WeightStreamer::update_on_device(int unit) {
  updates_->apply_on_device(unit, *h2d_);
  h2d_->record(*resident_ready_);
  store_.note_device_write(*h2d_, StateStore::DeviceWriter::weights);
  store_.end_update(unit);
}

void WeightStreamer::gather(const ScheduledUse& use, const std::byte* shard) {
  Slot& slot = slots_[static_cast<std::size_t>(use.slot)];
  {
    const TraceSpan span(row_, span_names::kWaitSlot);
    std::unique_lock lock(mutex_);
    wait_unless_failed(changed_, lock, failure_, [&] { return slot.leases == 0; });
  }
  const std::int64_t bytes = shard_bytes(use.unit);
  std::byte* const full = slot_memory_.data() + use.slot * slot_bytes_;
  h2d_->wait(*slot.free, WaitFor::slot_free);
  h2d_->copy(full + comm_.rank() * bytes, shard, bytes);
  if (store_.tier(use.unit, StateKind::weights) != Tier::device) {
    count(Account::pass, Link::to_device, bytes);
  }
  if (gather_ == nullptr) {
    h2d_->record(*slot.ready);
    return;
  }
  h2d_->record(*slot.shard_copied);
  gather_->wait(*slot.shard_copied, WaitFor::shard_on_device);
  comm_.all_gather(*gather_, full, bytes);
  count(Account::pass, Link::gathered, bytes * (comm_.world_size() - 1));
  gather_->record(*slot.ready);
}

void WeightStreamer::count(Account account, Link link, std::int64_t bytes) {
  store_.ledger().add(account, link, MovedKind::weights, bytes);
}

AlignedSpan WeightStreamer::staged(int unit, int staging) const {
  return staging_[static_cast<std::size_t>(staging)].buffer.span(0, shard_bytes(unit));
}

std::int64_t WeightStreamer::shard_bytes(int unit) const {
  return store_.unit(unit).shard_elements * element_bytes(StateKind::weights, plan_.dtypes);
}

}  // namespace strata::offload
