// What the tests of this folder share: the instruction sets of this machine, random numbers, the
// forms that a state can have, and a state in all of them that owns its arrays.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "optim_cpu/optimizer.h"

namespace strata::optim {

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

// Normal numbers times 10^[-decades, decades].
inline std::vector<float> random_floats(std::int64_t elements, float decades,
                                        std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-decades, decades);
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = normal(random) * std::pow(10.0f, exponent(random));
  return values;
}

enum class Masters : std::uint8_t { split, f32 };

struct Form {
  Method method = Method::adamw;
  Masters masters = Masters::split;
  MomentFormat moments = MomentFormat::f32;
  Dtype gradient = Dtype::f32;

  std::string text() const {
    constexpr const char* kMethods[] = {"adamw", "adam", "lion"};
    return fmt::format(
        "{}, {} masters, moments {}, gradients {}", kMethods[static_cast<int>(method)],
        masters == Masters::split ? "split" : "f32", name_of(moments), name_of(gradient));
  }
};

template <typename Body>
void for_each_form(const Body& body) {
  for (const Method method : {Method::adamw, Method::adam, Method::lion}) {
    for (const Masters masters : {Masters::split, Masters::f32}) {
      for (const MomentFormat moments :
           {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
        for (const Dtype gradient : {Dtype::f32, Dtype::bf16}) {
          body(Form{method, masters, moments, gradient});
        }
      }
    }
  }
}

// One moment in each format: f32, its upper half, and codes with scales.
struct MomentArrays {
  MomentArrays() = default;
  explicit MomentArrays(std::vector<float> values) : f32(std::move(values)) {
    for (const float x : f32) {
      bf16.push_back(to_bf16_nearest_even(x));
      codes.push_back(static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x) >> 13));
    }
    for (std::size_t i = 0; i < f32.size(); i += kScaleElements) {
      scales.push_back(std::abs(f32[i]));
    }
  }

  // From element `begin` on, with which a block starts in int8.
  Moment at(MomentFormat format, std::int64_t begin) {
    switch (format) {
      case MomentFormat::f32:
        return {f32.data() + begin, nullptr};
      case MomentFormat::bf16:
        return {bf16.data() + begin, nullptr};
      case MomentFormat::int8:
        break;
    }
    return {codes.data() + begin, scales.data() + begin / kScaleElements};
  }

  friend bool operator==(const MomentArrays&, const MomentArrays&) = default;

  std::vector<float> f32;
  std::vector<strata::bf16> bf16;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

// The arrays of a state of masters of size about 1, in every form.
struct Arrays {
  Arrays() = default;
  Arrays(std::int64_t elements, std::mt19937& random)
      : master(random_floats(elements, 2, random)),
        moment1(random_floats(elements, 2, random)),
        gradient(random_floats(elements, 2, random)) {
    std::vector<float> squares = random_floats(elements, 2, random);
    for (float& v : squares) v = std::abs(v);
    moment2 = MomentArrays(std::move(squares));
    for (const float w : master) {
      weight.push_back(split_master(w).weight);
      remainder.push_back(split_master(w).remainder);
    }
    set_gradient(gradient);
  }

  void set_gradient(std::vector<float> values) {
    gradient = std::move(values);
    gradient_bf16.clear();
    for (const float g : gradient) gradient_bf16.push_back(to_bf16_nearest_even(g));
  }

  State state(const Form& form, std::int64_t begin, std::int64_t end) {
    const bool split = form.masters == Masters::split;
    State state;
    state.weight = split ? static_cast<void*>(weight.data() + begin) : master.data() + begin;
    state.remainder = split ? remainder.data() + begin : nullptr;
    state.moments = form.moments;
    state.moment1 = moment1.at(form.moments, begin);
    if (form.method != Method::lion) state.moment2 = moment2.at(form.moments, begin);
    state.gradient = form.gradient == Dtype::f32 ? static_cast<const void*>(&gradient[0] + begin)
                                                 : gradient_bf16.data() + begin;
    state.gradient_dtype = form.gradient;
    state.elements = end - begin;
    state.first_element = begin;
    return state;
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(master.size()); }
  // The master of a form.
  float master_of(Masters masters, std::size_t i) const {
    return masters == Masters::split ? join_master(weight[i], remainder[i]) : master[i];
  }

  friend bool operator==(const Arrays&, const Arrays&) = default;

  std::vector<float> master;  // of f32 masters; split ones are in weight and remainder
  std::vector<bf16> weight;
  std::vector<std::int16_t> remainder;
  MomentArrays moment1;
  MomentArrays moment2;
  std::vector<float> gradient;
  std::vector<bf16> gradient_bf16;
};

inline Arrays subnormal_and_huge() {
  constexpr std::int64_t kElements = 4096;
  std::mt19937 random(13);
  Arrays start(kElements, random);
  std::vector<float> m = random_floats(kElements, 18, random);
  std::vector<float> v = random_floats(kElements, 37, random);
  for (float& x : v) x = std::min(std::abs(x), 3e38f);
  for (std::size_t i = 0; i < kElements; i += 3) v[i] = m[i] = 0;
  start.moment1 = MomentArrays(m);
  start.moment2 = MomentArrays(v);
  // Blocks of int8 of every size of numbers, down to subnormal ones and zeros.
  for (std::size_t block = 0; block < start.moment1.scales.size(); ++block) {
    const float size = block == 0 ? 0.0f : std::pow(10.0f, 5 * static_cast<float>(block) - 45);
    start.moment1.scales[block] = start.moment2.scales[block] = size;
  }
  start.set_gradient(random_floats(kElements, 18, random));
  return start;
}

// One segment, all of the state.
struct Group {
  float learning_rate = 0;
  float weight_decay = 0;
};

[[nodiscard]] inline bool update(const StepSettings& settings, const Group& group,
                                 const State& state, Isa isa) {
  const Segment all{state.elements, group.learning_rate, group.weight_decay, false};
  return update(settings, std::span(&all, 1), state, isa);
}

}  // namespace strata::optim
