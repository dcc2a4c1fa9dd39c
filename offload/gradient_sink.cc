#include "offload/gradient_sink.h"

#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::offload {

GradientSink::GradientSink(const Plan& plan, Device& device, Stream& compute,
                           comm::Communicator& comm, GradientConsumer& consumer, Ledger& ledger,
                           FailureLatch& failure, Tracer* tracer)
    : plan_(plan),
      compute_(compute),
      comm_(comm),
      consumer_(consumer),
      ledger_(ledger),
      failure_(failure),
      row_(tracer, span_names::kGradients),
      main_row_(tracer, span_names::kMain),
      memory_(device.allocate("gradient slots", kGradientSlots * plan.unit_elements_max * 4)),
      d2h_(device.make_stream("d2h")),
      thread_("gradients", failure, kGradientSlots + 1) {
  if (comm.world_size() > 1) reduce_ = device.make_stream("reduce");
  for (Slot& slot : slots_) {
    slot.filled = device.make_event();
    slot.reduced = device.make_event();
    slot.emptied = device.make_event();
  }
}

float* GradientSink::slot_data(int slot) const {
  return reinterpret_cast<float*>(memory_.data()) + slot * plan_.unit_elements_max;
}

float* GradientSink::open(int unit) {
  STRATA_CHECK(open_ < 0);
  open_ = next_;
  next_ = (next_ + 1) % kGradientSlots;
  Slot& slot = slots_[static_cast<std::size_t>(open_)];
  {
    const TraceSpan span(main_row_, span_names::kWaitGradients);
    std::unique_lock lock(mutex_);
    wait_unless_failed(changed_, lock, failure_, [&] { return !slot.busy; });
  }
  compute_.wait(*slot.emptied, WaitFor::gradient_slot_free);
  float* const data = slot_data(open_);
  const UnitPlan& planned = plan_.units[static_cast<std::size_t>(unit)];
  const std::int64_t padded = planned.shard_elements * plan_.world_size;
  if (padded > planned.elements) {
    compute_.fill_zero(data + planned.elements, (padded - planned.elements) * 4);
  }
  return data;
}

void GradientSink::close(const Contribution& contribution) {
  STRATA_CHECK(open_ >= 0);
  if (plan_.units[static_cast<std::size_t>(contribution.unit)].frozen) {
    next_ = std::exchange(open_, -1);
    return;
  }
  Slot& slot = slots_[static_cast<std::size_t>(open_)];
  compute_.record(*slot.filled);
  slot.busy = true;
  thread_.post([this, index = open_, contribution] { take_out(index, contribution); });
  open_ = -1;
}

void GradientSink::drain() {
  const TraceSpan span(main_row_, span_names::kWaitGradients);
  thread_.wait_idle();
  failure_.check();
}

void GradientSink::take_out(int index, const Contribution& contribution) {
  const TraceSpan span(row_, "gradient");
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const UnitPlan& unit = plan_.units[static_cast<std::size_t>(contribution.unit)];
  const std::int64_t elements = unit.shard_elements;
  float* const data = slot_data(index);
  float* const shard = data + comm_.rank() * elements;
  float* const landing = unit.updated_on_device ? nullptr : consumer_.landing(contribution);
  if (reduce_ != nullptr) {
    reduce_->wait(*slot.filled, WaitFor::gradients_ready);
    comm_.reduce_scatter(*reduce_, data, elements);
    ledger_.add(Account::pass, Link::reduced, MovedKind::gradients,
                elements * 4 * (comm_.world_size() - 1));
    reduce_->record(*slot.reduced);
    d2h_->wait(*slot.reduced, WaitFor::gradient_reduced);
  } else {
    d2h_->wait(*slot.filled, WaitFor::gradients_ready);
  }
  if (unit.updated_on_device) {
    consumer_.take_on_device(contribution, *d2h_, shard);
  } else {
    d2h_->copy(landing, shard, elements * 4);
    ledger_.add(Account::pass, Link::from_device, MovedKind::gradients, elements * 4);
  }
  d2h_->record(*slot.emptied);
  {
    const std::lock_guard lock(mutex_);
    slot.busy = false;
  }
  changed_.notify_all();
  {
    const TraceSpan wait(row_, span_names::kWaitToHost);
    slot.emptied->synchronize();
  }
  consumer_.landed(contribution);
}

}  // namespace strata::offload
