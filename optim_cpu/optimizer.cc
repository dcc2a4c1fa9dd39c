#include "optim_cpu/optimizer.h"

#include <algorithm>
#include <array>

#include "kernels/base/error.h"
#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa_select.h"
#include "optim_cpu/step_constants.h"

namespace strata::optim {
namespace {

// One call's work, segment by segment (moments in f32 and bf16) or block by block (int8).
class Updater {
 public:
  Updater(const StepSettings& settings, std::span<const Segment> segments, const State& state,
          Isa isa)
      : settings_(settings),
        segments_(segments),
        state_(state),
        correction_(bias_correction(settings)),
        update_range_(select(isa, scalar::kUpdateRange, avx2::kUpdateRange, avx512::kUpdateRange)),
        quantisation_(select(isa, scalar::kQuantisationFunctions, avx2::kQuantisationFunctions,
                             avx512::kQuantisationFunctions)) {}

  bool update_segments() {
    bool in_domain = true;
    std::int64_t begin = 0;
    for (const Segment& segment : segments_) {
      if (!segment.frozen) in_domain &= update_segment(segment, begin);
      begin = segment.last;
    }
    return in_domain;
  }

  bool update_blocks() {
    bool in_domain = true;
    std::size_t segment = 0;
    for (std::int64_t begin = 0; begin < state_.elements; begin += kScaleElements) {
      const std::int64_t end = std::min(begin + kScaleElements, state_.elements);
      while (segments_[segment].last <= begin) ++segment;
      if (!all_frozen(segment, end)) in_domain &= update_block(segment, begin, end);
    }
    return in_domain;
  }

 private:
  // In pieces that have one key.
  bool update_segment(const Segment& segment, std::int64_t begin) {
    UpdateConstants constants = update_constants(settings_, correction_, segment);
    bool in_domain = true;
    while (begin < segment.last) {
      const std::int64_t index = state_.first_element + begin;
      const std::int64_t end = std::min(segment.last, begin + kKeyElements - index % kKeyElements);
      if (state_.moments == MomentFormat::bf16) {
        constants.rounding_key = rounding_key(settings_, state_.unit, index);
      }
      in_domain &= update_range_(settings_.method, constants, state_, begin, end);
      begin = end;
    }
    return in_domain;
  }

  // From the beginning of `segment` to `end`.
  bool all_frozen(std::size_t segment, std::int64_t end) const {
    while (segments_[segment].frozen && segments_[segment].last < end) ++segment;
    return segments_[segment].frozen;
  }

  // Moments are widened into f32, updated there, and quantised again, all 256 at once: `segment` is
  // the one that element `begin` is in.
  bool update_block(std::size_t segment, std::int64_t begin, std::int64_t end) {
    const std::int64_t elements = end - begin;
    const std::int64_t block = begin / kScaleElements;
    const auto codes = [&](const Moment& moment) {
      return static_cast<std::uint8_t*>(moment.values) + begin;
    };
    const bool has_moment2 = settings_.method != Method::lion;
    alignas(64) std::array<float, kScaleElements> moment1;
    alignas(64) std::array<float, kScaleElements> moment2;
    quantisation_.dequantise_signed(moment1.data(), codes(state_.moment1),
                                    state_.moment1.scales[block], elements);
    if (has_moment2) {
      quantisation_.dequantise_unsigned(moment2.data(), codes(state_.moment2),
                                        state_.moment2.scales[block], elements);
    }
    State widened = rest_of(state_, begin);
    widened.moments = MomentFormat::f32;
    widened.moment1 = {moment1.data(), nullptr};
    widened.moment2 = {moment2.data(), nullptr};
    bool in_domain = true;
    for (std::int64_t first = begin; first < end; ++segment) {
      const Segment& s = segments_[segment];
      const std::int64_t last = std::min(s.last, end);
      if (!s.frozen && first < last) {
        in_domain &= update_range_(settings_.method, update_constants(settings_, correction_, s),
                                   widened, first - begin, last - begin);
      }
      first = last;
    }
    const RoundingKey key = rounding_key(settings_, state_.unit, state_.first_element + begin);
    const auto index = static_cast<std::uint32_t>(state_.first_element + begin);
    state_.moment1.scales[block] =
        quantisation_.quantise_signed(codes(state_.moment1), moment1.data(), key, index, elements);
    if (has_moment2) {
      state_.moment2.scales[block] = quantisation_.quantise_unsigned(
          codes(state_.moment2), moment2.data(), key, index, elements);
    }
    return in_domain;
  }

  const StepSettings& settings_;
  const std::span<const Segment> segments_;
  const State& state_;
  const BiasCorrection correction_;
  const UpdateRange update_range_;
  const QuantisationFunctions& quantisation_;
};

}  // namespace

bool update(const StepSettings& settings, std::span<const Segment> segments, const State& state,
            Isa isa) {
  STRATA_CHECK(settings.step >= 1, "the optimizer's step number starts at 1, not {}",
               settings.step);
  if (state.elements == 0) return true;
  STRATA_CHECK(!segments.empty() && segments.back().last == state.elements,
               "segments must end with the state, at element {}", state.elements);
  Updater updater(settings, segments, state, isa);
  if (state.moments != MomentFormat::int8) return updater.update_segments();
  STRATA_CHECK(state.first_element % kScaleElements == 0, "element {} is within a block of {}",
               state.first_element, kScaleElements);
  return updater.update_blocks();
}

}  // namespace strata::optim
