// Units that a GPU updates: of StreamingOptimizer, what its kernels do.
#include <algorithm>

#include "engine/step/streaming_optimizer.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::Account;
using offload::Link;
using offload::StateKind;
using offload::Tier;

void StreamingOptimizer::prepare_device_updates(Device& device) {
  STRATA_CHECK(on_device_ != nullptr);
  using offload::kDeviceUpdatesTag;
  if (!plan_.stages_state()) {
    memory_ =
        device.allocate_pinned(offload::kLoadingStagingTag, offload::loading_staging_bytes(plan_));
  }
  left_domain_ = device.allocate(kDeviceUpdatesTag, offload::kDomainBytes);
  host_left_domain_ = device.allocate_pinned(kDeviceUpdatesTag, offload::kDomainBytes);
  updated_on_device_ = device.make_event();
  copies_->fill_zero(left_domain_.data(), offload::kDomainBytes);
  copies_->synchronize();
}

void StreamingOptimizer::apply_on_device(int unit, Stream& stream) {
  update_on_device(unit, stream, nullptr);
}

void StreamingOptimizer::apply_final_on_device(int unit, Stream& stream, const float* gradient) {
  update_on_device(unit, stream, gradient);
  store_.note_device_write(stream, offload::StateStore::DeviceWriter::weights);
  store_.end_update(unit);
}

// `gradient`: null where it has its place. Of the blocks of moments in int8 the last may be short.
void StreamingOptimizer::update_on_device(int unit, Stream& stream, const float* gradient) {
  expect_next(unit);
  const std::int64_t shard = store_.unit(unit).shard_elements;
  const bool in_blocks = plan_.dtypes.moments == MomentFormat::int8;
  const std::int64_t rest = in_blocks ? shard % plan_.block_elements : 0;
  launch_update({unit, 0, shard - rest}, stream, gradient);
  launch_update({unit, shard - rest, rest}, stream, gradient);
  stream.record(*updated_on_device_);
  unchecked_ = true;
  end_unit(unit);
}

void StreamingOptimizer::launch_update(const Chunk& chunk, Stream& stream, const float* gradient) {
  if (chunk.elements == 0) return;
  Pointers at{};
  for (int k = 0; k < offload::kStateKinds; ++k) {
    const auto kind = static_cast<StateKind>(k);
    if (!exists(kind, plan_.dtypes) || store_.tier(chunk.unit, kind) != Tier::device) continue;
    at[static_cast<std::size_t>(k)] = store_.device(chunk.unit, kind) + bytes(kind, chunk.first);
  }
  optim::State state = state_of(chunk, at, 0, chunk.elements);
  if (gradient != nullptr) {
    state.gradient = gradient + chunk.first;
    state.gradient_dtype = Dtype::f32;
  }
  std::vector<optim::Segment>& segments = segments_.front();
  cut_segments(chunk.unit, state.first_element, state.first_element + state.elements, segments);
  on_device_->update(stream, settings_, segments, state,
                     {plan_.block_elements, plan_.block_bytes(StateKind::moment1)},
                     reinterpret_cast<std::int32_t*>(left_domain_.data()));
}

// Once a step, before whoever waits for its updates can commit them.
void StreamingOptimizer::check_device_updates() {
  if (!unchecked_) return;
  unchecked_ = false;
  copies_->wait(*updated_on_device_, WaitFor::state_written);
  copies_->copy(host_left_domain_.data(), left_domain_.data(), offload::kDomainBytes);
  store_.ledger().add(Account::update, Link::from_device, offload::MovedKind::batch,
                      offload::kDomainBytes);
  copies_->synchronize();
  if (const int left = *host_left_domain_.as<std::int32_t>(); left > 0) refuse_update_of(left - 1);
}

}  // namespace strata::engine
