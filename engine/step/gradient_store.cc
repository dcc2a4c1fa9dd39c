#include "engine/step/gradient_store.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/span_names.h"
#include "optim_cpu/gradient.h"

namespace strata::engine {

using offload::Account;
using offload::Contribution;
using offload::Link;
using offload::StateKind;
using offload::Tier;
using offload::UpdateTime;

namespace {

using offload::kNormBlockElements;
static_assert(kNormBlockElements == optim::kSquareSumElements);

constexpr std::int64_t kTileElements = 16 * kNormBlockElements;

// Runs body(first, count) over tiles of a shard.
template <typename Body>
void for_tiles(WorkerSet& workers, std::int64_t elements, const Body& body) {
  workers.parallel_for(ceil_div(elements, kTileElements), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * kTileElements;
    body(first, std::min(kTileElements, elements - first));
  });
}

template <typename T>
std::span<T> piece(T* data, std::int64_t first, std::int64_t count) {
  return {data + first, static_cast<std::size_t>(count)};
}

}  // namespace

GradientStore::GradientStore(offload::StateStore& store, Device& device, WorkerSet& workers,
                             TrainedRanges trained, Isa isa,
                             StreamingOptimizer* updates_in_backward, Tracer* tracer,
                             optim::DeviceOptimizer* on_device)
    : store_(store),
      plan_(store.plan()),
      workers_(workers),
      trained_(std::move(trained)),
      isa_(isa),
      updates_in_backward_(updates_in_backward),
      row_(tracer, span_names::kGradients),
      on_device_(on_device),
      unit_norms_(plan_.units.size()) {
  const std::int64_t shard = plan_.unit_elements_max / plan_.world_size;
  if (plan_.device_updates) {
    sums_ = device.allocate(offload::kDeviceUpdatesTag, offload::norm_bytes(shard));
    host_sums_ = device.allocate_pinned(offload::kDeviceUpdatesTag, offload::norm_bytes(shard));
  }
  if (plan_.homes == offload::Homes::device) return;
  block_norms_.resize(static_cast<std::size_t>(ceil_div(shard, kNormBlockElements)));
  for (Staging& staging : staging_) {
    staging.values = device.allocate_pinned("gradient staging", shard * 4);
    if (plan_.dtypes.gradients == Dtype::bf16) {
      staging.rounded = device.allocate_pinned("gradient staging", shard * 2);
    }
  }
  if (!plan_.stages_state()) return;
  copies_ = device.make_stream("grad copy");
  partial_ = device.allocate_pinned("gradient staging", shard * 4);
  store_.register_memory(partial_.span());
  for (const Staging& staging : staging_) {
    store_.register_memory(staging.values.span());
    if (plan_.dtypes.gradients == Dtype::bf16) store_.register_memory(staging.rounded.span());
  }
}

GradientStore::~GradientStore() = default;

void GradientStore::begin_step() { std::fill(unit_norms_.begin(), unit_norms_.end(), Norm{}); }

// Whether a unit's gradient accumulates in host memory where it stays.
bool GradientStore::resident(int unit) const {
  return store_.unit(unit).gradient_element_bytes == 4 &&
         store_.tier(unit, StateKind::gradients) == Tier::host;
}

float* GradientStore::landing(const Contribution& contribution) {
  const int unit = contribution.unit;
  if (resident(unit) && contribution.first) {
    return store_.host(unit, StateKind::gradients).as<float>();
  }
  current_ = (current_ + 1) % offload::kGradientStagingSlots;
  Staging& staging = staging_[static_cast<std::size_t>(current_)];
  {
    const TraceSpan span(row_, span_names::kWaitWrite);
    staging.writes.wait();
  }
  if (!contribution.first) read_partial(unit);
  return staging.values.as<float>();
}

// Starts bringing back what earlier contributions left on the tier.
void GradientStore::read_partial(int unit) {
  const AlignedSpan destination =
      resident(unit) ? AlignedSpan() : partial_.span(0, elements(unit) * 4);
  switch (store_.tier(unit, StateKind::gradients)) {
    case Tier::host:
      return;
    case Tier::nvme:
      for (Staging& staging : staging_) staging.writes.wait();
      store_.read(unit, StateKind::gradients, 0, destination, partial_reads_, Account::pass);
      return;
    case Tier::device:
      copies_->copy(destination.data(), store_.device(unit, StateKind::gradients),
                    destination.bytes());
      count(Link::from_device, destination.bytes());
      return;
  }
}

void GradientStore::landed(const Contribution& contribution) {
  const int unit = contribution.unit;
  if (store_.unit(unit).updated_on_device) {
    if (contribution.last && updates_in_backward_ == nullptr) take_norm(unit);
    return;
  }
  Staging& staging = staging_[static_cast<std::size_t>(current_)];
  float* values = staging.values.as<float>();
  if (resident(unit)) {
    float* const sum = store_.host(unit, StateKind::gradients).as<float>();
    if (!contribution.first) accumulate(unit, sum, values);
    values = sum;
  } else if (!contribution.first) {
    {
      const TraceSpan span(row_, span_names::kWaitRead);
      partial_reads_.wait();
      if (copies_ != nullptr) copies_->synchronize();
    }
    accumulate(unit, values, partial_.as<float>());
  }
  if (contribution.last) {
    finish_gradient(unit, staging, values);
  } else {
    keep_partial(unit, staging, values);
  }
}

void GradientStore::expect_finite(int unit) const {
  if (unit_norms_[static_cast<std::size_t>(unit)].finite) return;
  throw_error<TrainingError>(
      "a gradient of {} is not finite; lower --lr, or use --on-nonfinite skip",
      store_.unit(unit).name);
}

void GradientStore::accumulate(int unit, float* sum, const float* addend) {
  for_tiles(workers_, elements(unit), [&](std::int64_t first, std::int64_t count) {
    optim::accumulate(piece(sum, first, count), piece(addend, first, count), isa_);
  });
}

void GradientStore::keep_partial(int unit, Staging& staging, const float* values) {
  if (resident(unit)) return;
  STRATA_CHECK(values == staging.values.as<float>());
  const AlignedSpan source = staging.values.span(0, elements(unit) * 4);
  if (store_.tier(unit, StateKind::gradients) == Tier::nvme) {
    store_.write(unit, StateKind::gradients, 0, source, staging.writes, Account::pass);
  } else {
    to_device(unit, source);
  }
}

void GradientStore::to_device(int unit, AlignedSpan source) {
  copies_->copy(store_.device(unit, StateKind::gradients), source.data(), source.bytes());
  count(Link::to_device, source.bytes());
  copies_->synchronize();
}

void GradientStore::count(Link link, std::int64_t bytes) {
  store_.ledger().add(Account::pass, link, offload::MovedKind::gradients, bytes);
}

void GradientStore::finish_gradient(int unit, Staging& staging, float* values) {
  const void* gradient = values;
  if (plan_.dtypes.gradients == Dtype::bf16) {
    bf16* const rounded = staging.rounded.as<bf16>();
    for_tiles(workers_, elements(unit), [&](std::int64_t first, std::int64_t count) {
      optim::round_to_bf16(piece(rounded, first, count), piece<const float>(values, first, count),
                           isa_);
    });
    gradient = rounded;
  }
  measure(unit, gradient);
  if (updates_in_backward_ == nullptr) {
    keep_final(unit, staging, gradient);
    return;
  }
  expect_finite(unit);
  const TraceSpan span(row_, span_names::kWaitUpdate);
  updates_in_backward_->apply_final(unit, gradient);
}

void GradientStore::measure(int unit, const void* gradient) {
  const std::int64_t count = elements(unit);
  for_tiles(workers_, count, [&](std::int64_t tile_first, std::int64_t tile_count) {
    const std::int64_t tile_last = tile_first + tile_count;
    for (std::int64_t first = tile_first; first < tile_last; first += kNormBlockElements) {
      const std::int64_t last = std::min(first + kNormBlockElements, tile_last);
      block_norms_[static_cast<std::size_t>(first / kNormBlockElements)] =
          measure_block(unit, gradient, first, last);
    }
  });
  Norm& norm = unit_norms_[static_cast<std::size_t>(unit)];
  for (std::int64_t b = 0; b < ceil_div(count, kNormBlockElements); ++b) {
    norm.add(block_norms_[static_cast<std::size_t>(b)]);
  }
}

GradientStore::Norm GradientStore::measure_block(int unit, const void* gradient, std::int64_t first,
                                                 std::int64_t last) const {
  const auto square_sum = [&](const auto* values, const ElementRange& range, bool* finite) {
    return optim::gradient_square_sum(piece(values, range.first, range.last - range.first), isa_,
                                      finite);
  };
  Norm norm;
  for (const ElementRange& trained : trained_[static_cast<std::size_t>(unit)]) {
    const ElementRange range{std::max(first, trained.first), std::min(last, trained.last)};
    if (range.first >= range.last) continue;
    norm.square_sum += plan_.dtypes.gradients == Dtype::bf16
                           ? square_sum(static_cast<const bf16*>(gradient), range, &norm.finite)
                           : square_sum(static_cast<const float*>(gradient), range, &norm.finite);
  }
  return norm;
}

void GradientStore::keep_final(int unit, Staging& staging, const void* gradient) {
  const bool rounded = plan_.dtypes.gradients == Dtype::bf16;
  const std::int64_t bytes = elements(unit) * bytes_of(plan_.dtypes.gradients);
  const AlignedSpan source = rounded          ? staging.rounded.span(0, bytes)
                             : resident(unit) ? AlignedSpan()
                                              : staging.values.span(0, bytes);
  switch (store_.tier(unit, StateKind::gradients)) {
    case Tier::nvme:
      store_.write(unit, StateKind::gradients, 0, source, staging.writes, Account::pass);
      return;
    case Tier::device:
      to_device(unit, source);
      return;
    case Tier::host: {
      std::byte* const home = store_.host(unit, StateKind::gradients).data();
      if (home == gradient) return;
      std::copy_n(source.data(), bytes, home);
      return;
    }
  }
}

GradientStore::Norm GradientStore::finish() {
  for (Staging& staging : staging_) staging.writes.wait();
  Norm total;
  for (const Norm& norm : unit_norms_) total.add(norm);
  return total;
}

}  // namespace strata::engine
