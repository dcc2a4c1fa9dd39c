// What the tests of this folder share: the instruction sets of this machine, random numbers, a
// state that owns its arrays.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "optim_cpu/adam.h"

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

// The arrays of a state of masters of size about 1, with a gradient in f32 and in bf16.
struct Arrays {
  Arrays() = default;
  Arrays(std::int64_t elements, std::mt19937& random)
      : master(random_floats(elements, 2, random)),
        moment1(random_floats(elements, 2, random)),
        moment2(random_floats(elements, 2, random)),
        gradient(random_floats(elements, 2, random)) {
    for (float& v : moment2) v = std::abs(v);
    for (const float w : master) {
      weight.push_back(split_master(w).weight);
      remainder.push_back(split_master(w).remainder);
    }
    for (const float g : gradient) gradient_bf16.push_back(to_bf16_nearest_even(g));
  }

  SplitState split(Dtype gradient_dtype, std::int64_t begin, std::int64_t end) {
    const bool f32 = gradient_dtype == Dtype::f32;
    return {weight.data() + begin,
            remainder.data() + begin,
            moment1.data() + begin,
            moment2.data() + begin,
            f32 ? gradient.data() + begin : nullptr,
            f32 ? nullptr : gradient_bf16.data() + begin,
            end - begin};
  }
  F32State f32(Dtype gradient_dtype, std::int64_t begin, std::int64_t end) {
    const SplitState s = split(gradient_dtype, begin, end);
    return {master.data() + begin, s.moment1,       s.moment2,
            s.gradient_f32,        s.gradient_bf16, s.elements};
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(master.size()); }
  float joined(std::size_t i) const { return join_master(weight[i], remainder[i]); }

  friend bool operator==(const Arrays&, const Arrays&) = default;

  std::vector<float> master;  // of the f32 state; the split state has its own
  std::vector<bf16> weight;
  std::vector<std::int16_t> remainder;
  std::vector<float> moment1;
  std::vector<float> moment2;
  std::vector<float> gradient;
  std::vector<bf16> gradient_bf16;
};

}  // namespace strata::optim
