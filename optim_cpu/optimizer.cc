#include "optim_cpu/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"
#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa_select.h"

namespace strata::optim {
namespace {

// Of a step, whatever the segment.
struct BiasCorrection {
  double moment1;            // 1 - beta1^t; 1 for lion
  float moment2_root_scale;  // 1 / sqrt(1 - beta2^t)
};

BiasCorrection bias_correction(const StepSettings& settings) {
  if (settings.method == Method::lion) return {1, 1};
  const auto t = static_cast<double>(settings.step);
  return {1 - std::pow(double{settings.beta1}, t),
          static_cast<float>(1 / std::sqrt(1 - std::pow(double{settings.beta2}, t)))};
}

UpdateConstants constants_of(const StepSettings& settings, const BiasCorrection& correction,
                             const Segment& segment) {
  const bool decoupled = settings.method != Method::adam;
  return {
      .gradient_scale = settings.gradient_scale,
      .coupled_decay = decoupled ? 0.0f : segment.weight_decay,
      .decoupled_decay = decoupled ? segment.learning_rate * segment.weight_decay : 0.0f,
      .beta1 = settings.beta1,
      .one_minus_beta1 = static_cast<float>(1 - double{settings.beta1}),
      .beta2 = settings.beta2,
      .one_minus_beta2 = static_cast<float>(1 - double{settings.beta2}),
      .step_size = static_cast<float>(double{segment.learning_rate} / correction.moment1),
      .moment2_root_scale = correction.moment2_root_scale,
      .epsilon = settings.epsilon,
      .rounding_key = {},
  };
}

constexpr std::int64_t kKeyElements = std::int64_t{1} << 32;  // that share a key

// Of element `index` of the unit.
RoundingKey rounding_key(const StepSettings& settings, std::uint64_t unit, std::int64_t index) {
  std::uint64_t key = SplitMix64{settings.seed}();
  for (const std::uint64_t word : {static_cast<std::uint64_t>(settings.step), unit,
                                   static_cast<std::uint64_t>(index / kKeyElements)}) {
    key = SplitMix64{key ^ word}();
  }
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
}

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
    UpdateConstants constants = constants_of(settings_, correction_, segment);
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
    State widened = rest(begin);
    widened.moments = MomentFormat::f32;
    widened.moment1 = {moment1.data(), nullptr};
    widened.moment2 = {moment2.data(), nullptr};
    bool in_domain = true;
    for (std::int64_t first = begin; first < end; ++segment) {
      const Segment& s = segments_[segment];
      const std::int64_t last = std::min(s.last, end);
      if (!s.frozen && first < last) {
        in_domain &= update_range_(settings_.method, constants_of(settings_, correction_, s),
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

  // Elements from `begin` on, without moments.
  State rest(std::int64_t begin) const {
    State rest = state_;
    const bool split = state_.remainder != nullptr;
    rest.weight = static_cast<std::byte*>(state_.weight) + begin * (split ? 2 : 4);
    if (split) rest.remainder += begin;
    rest.gradient =
        static_cast<const std::byte*>(state_.gradient) + begin * bytes_of(state_.gradient_dtype);
    rest.elements -= begin;
    return rest;
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
