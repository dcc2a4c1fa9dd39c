// The floor visits every byte of a state, changes none, and goes no further.
#include "optim_cpu/memory_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "optim_cpu/isa/functions.h"
#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

TEST(MemoryFloor, ChangesNothing) {
  for_each_form([](const Form& form) {
    std::mt19937 random(3);
    const Arrays start(1000, random);
    for (const Isa isa : supported_isas()) {
      Arrays touched = start;
      touch_state(touched.state(form, 0, 1000), isa);
      EXPECT_EQ(touched, start) << form.text() << ' ' << name_of(isa);
    }
  });
}

// Of `bytes` bytes, how many were set to ones; those behind them must not be.
void expect_ones(const void* data, std::int64_t bytes, std::int64_t bytes_of_array,
                 const std::string& what) {
  const auto* const first = static_cast<const std::uint8_t*>(data);
  EXPECT_EQ(std::count(first, first + bytes, 0xFF), bytes) << what;
  EXPECT_EQ(std::count(first + bytes, first + bytes_of_array, 0xFF), 0) << what;
}

// A mask of ones, with a gradient of ones, leaves a trace in every byte.
TEST(MemoryFloor, VisitsEveryByte) {
  constexpr std::int64_t kElements = 777;
  constexpr std::int64_t kRoom = 1000;
  const auto touch = [](Isa isa, const State& state) {
    const TouchState functions[] = {scalar::kTouchState, avx2::kTouchState, avx512::kTouchState};
    functions[static_cast<int>(isa)](state, 0xFF);
  };
  for_each_form([&](const Form& form) {
    for (const Isa isa : supported_isas()) {
      std::vector<std::uint8_t> arrays[4];
      for (auto& array : arrays) array.resize(4 * kRoom);
      const std::vector<std::uint8_t> gradient(4 * kRoom, 0xFF);
      std::vector<float> scales(kRoom);
      const bool split = form.masters == Masters::split;
      const std::int64_t moment_bytes = form.moments == MomentFormat::f32    ? 4
                                        : form.moments == MomentFormat::bf16 ? 2
                                                                             : 1;
      State state;
      state.weight = arrays[0].data();
      if (split) state.remainder = reinterpret_cast<std::int16_t*>(arrays[1].data());
      state.moments = form.moments;
      state.moment1 = {arrays[2].data(), scales.data()};
      if (form.method != Method::lion) state.moment2 = {arrays[3].data(), scales.data()};
      state.gradient = gradient.data();
      state.gradient_dtype = form.gradient;
      state.elements = kElements;
      touch(isa, state);
      const std::string what = form.text() + ' ' + name_of(isa);
      expect_ones(arrays[0].data(), kElements * (split ? 2 : 4), 4 * kRoom, what);
      expect_ones(arrays[1].data(), split ? kElements * 2 : 0, 4 * kRoom, what);
      expect_ones(arrays[2].data(), kElements * moment_bytes, 4 * kRoom, what);
      expect_ones(arrays[3].data(), form.method == Method::lion ? 0 : kElements * moment_bytes,
                  4 * kRoom, what);
    }
  });
}

}  // namespace
}  // namespace strata::optim
