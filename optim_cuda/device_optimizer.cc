#include "optim_cuda/device_optimizer.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace strata::optim {
namespace {

constexpr std::int64_t kCallElementsMax = std::int64_t{1} << 30;

void begin_at(std::int64_t begin, const State& state, UpdateCall& call) {
  call.state = rest_of(state, begin);
  if (state.moments != MomentFormat::int8) return;
  call.place_in_block = static_cast<std::int32_t>(begin % call.blocks.elements);
  const std::int64_t bytes = begin / call.blocks.elements * call.blocks.bytes;
  const auto of_block = [&](const Moment& moment) -> Moment {
    if (moment.values == nullptr) return {};
    return {static_cast<std::byte*>(moment.values) + bytes, moment.scales + bytes / 4};
  };
  call.state.moment1 = of_block(state.moment1);
  call.state.moment2 = of_block(state.moment2);
}

// Of elements from `begin` on: as many as have one key, and no more segments than a call takes.
UpdateCall call_from(const StepSettings& settings, const BiasCorrection& correction,
                     std::span<const Segment> segments, const State& state,
                     const Int8Blocks& blocks, std::int64_t begin) {
  UpdateCall call{};
  call.method = settings.method;
  call.blocks = blocks;
  begin_at(begin, state, call);
  const std::int64_t index = call.state.first_element;
  std::int64_t end = std::min(
      {state.elements, begin + kCallElementsMax, begin + kKeyElements - index % kKeyElements});
  for (const Segment& segment : segments) {
    if (segment.last <= begin) continue;
    if (call.segment_count == UpdateCall::kSegmentsMax) {
      end = begin + call.segments[call.segment_count - 1].last / kScaleElements * kScaleElements;
      STRATA_CHECK(end > begin, "more than {} segments in a block", UpdateCall::kSegmentsMax);
      break;
    }
    call.constants = update_constants(settings, correction, segment);
    call.segments[call.segment_count++] = {
        static_cast<std::int32_t>(std::min(segment.last, end) - begin),
        call.constants.coupled_decay, call.constants.decoupled_decay, call.constants.step_size,
        segment.frozen};
    if (segment.last >= end) break;
  }
  call.state.elements = end - begin;
  call.constants.rounding_key = rounding_key(settings, state.unit, index);
  return call;
}

bool all_frozen(const UpdateCall& call) {
  return std::all_of(call.segments, call.segments + call.segment_count,
                     [](const SegmentConstants& segment) { return segment.frozen; });
}

}  // namespace

void DeviceOptimizer::update(Stream& stream, const StepSettings& settings,
                             std::span<const Segment> segments, const State& state,
                             const Int8Blocks& blocks, std::int32_t* left_domain) {
  STRATA_CHECK(settings.step >= 1, "the optimizer's step number starts at 1, not {}",
               settings.step);
  STRATA_CHECK(state.elements % kScaleElements == 0 && state.first_element % kScaleElements == 0,
               "elements {} to {} are no whole blocks of {}", state.first_element,
               state.first_element + state.elements, kScaleElements);
  if (state.elements == 0) return;
  STRATA_CHECK(!segments.empty() && segments.back().last == state.elements,
               "segments must end with the state, at element {}", state.elements);
  const BiasCorrection correction = bias_correction(settings);
  for (std::int64_t begin = 0; begin < state.elements;) {
    UpdateCall call = call_from(settings, correction, segments, state, blocks, begin);
    call.left_domain = left_domain;
    if (!all_frozen(call)) launch(stream, call);
    begin += call.state.elements;
  }
}

std::unique_ptr<DeviceOptimizer> make_device_optimizer(const CudaBackend& backend) {
  std::unique_ptr<DeviceOptimizer> optimizer;
  backend.entry_point<cuda_entry::MakeOptimizer>("strata_cuda_make_optimizer")(optimizer);
  return optimizer;
}

}  // namespace strata::optim
