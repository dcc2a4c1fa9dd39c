// Gradients of units that a GPU updates: of GradientStore, what happens to them there.
#include <cmath>

#include "engine/step/gradient_store.h"
#include "kernels/base/span_names.h"

namespace strata::engine {

using offload::Contribution;
using offload::kNormBlockElements;
using offload::Link;
using offload::StateKind;

void GradientStore::take_on_device(const Contribution& contribution, Stream& stream, float* shard) {
  const int unit = contribution.unit;
  const std::int64_t count = elements(unit);
  const bool has_place = store_.unit(unit).gradient_element_bytes > 0;
  std::byte* const place = has_place ? store_.device(unit, StateKind::gradients) : nullptr;
  auto* const partial = reinterpret_cast<float*>(place);
  if (!contribution.last) {
    if (contribution.first) return stream.copy(partial, shard, count * 4);
    return on_device_->accumulate(stream, partial, shard, count);
  }
  if (!contribution.first) on_device_->accumulate(stream, shard, partial, count);
  if (updates_in_backward_ != nullptr) return update_in_backward(unit, stream, shard);
  if (plan_.dtypes.gradients == Dtype::bf16) {
    on_device_->round_to_bf16(stream, reinterpret_cast<bf16*>(place), shard, count);
  } else {
    stream.copy(place, shard, count * 4);
  }
  measure_on_device(unit, stream, place, plan_.dtypes.gradients);
}

// From the slot, where a gradient that is rounded has its values in f32.
void GradientStore::update_in_backward(int unit, Stream& stream, float* shard) {
  if (plan_.dtypes.gradients == Dtype::bf16) {
    on_device_->round_to_bf16(stream, shard, elements(unit));
  }
  measure_on_device(unit, stream, shard, Dtype::f32);
  {
    const TraceSpan span(row_, span_names::kWaitToHost);
    stream.synchronize();
  }
  take_norm(unit);
  expect_finite(unit);
  updates_in_backward_->apply_final_on_device(unit, stream, shard);
}

void GradientStore::measure_on_device(int unit, Stream& stream, const void* gradient, Dtype dtype) {
  const std::int64_t bytes = offload::norm_bytes(elements(unit));
  stream.fill_zero(sums_.data(), bytes);
  for (const ElementRange& trained : trained_[static_cast<std::size_t>(unit)]) {
    on_device_->add_square_sums(stream, reinterpret_cast<double*>(sums_.data()), gradient, dtype,
                                trained.first, trained.last);
  }
  stream.copy(host_sums_.data(), sums_.data(), bytes);
  count(Link::from_device, bytes);
}

// What was measured, once it has come.
void GradientStore::take_norm(int unit) {
  Norm& norm = unit_norms_[static_cast<std::size_t>(unit)];
  for (std::int64_t b = 0; b < elements(unit) / kNormBlockElements; ++b) {
    const double sum = host_sums_.as<double>()[b];
    norm.add({sum, std::isfinite(sum)});
  }
}

}  // namespace strata::engine
