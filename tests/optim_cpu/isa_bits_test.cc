// One arithmetic: the same bits from every instruction set, at every length, alignment and split.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

const AdamStep kStep{
    .learning_rate = 1e-3f, .weight_decay = 0.1f, .gradient_scale = 0.7f, .step = 3};

enum class Form { split, f32 };

void update(Form form, Dtype gradient, Arrays& arrays, std::int64_t begin, std::int64_t end,
            Isa isa, Method method = Method::adamw) {
  AdamStep step = kStep;
  step.method = method;
  const bool inside = form == Form::split
                          ? adam_update(step, arrays.split(gradient, begin, end), isa)
                          : adam_update(step, arrays.f32(gradient, begin, end), isa);
  ASSERT_TRUE(inside);
}

template <typename Body>
void for_each_form(const Body& body) {
  for (const Form form : {Form::split, Form::f32}) {
    for (const Dtype gradient : {Dtype::f32, Dtype::bf16}) body(form, gradient);
  }
}

TEST(IsaBits, AdamAtEveryShortLengthAndOffset) {
  for_each_form([](Form form, Dtype gradient) {
    for (std::int64_t elements = 0; elements <= 70; ++elements) {
      const std::int64_t begin = elements % 17;
      std::mt19937 random(static_cast<unsigned>(elements));
      const Arrays start(elements + 40, random);
      Arrays expected = start;
      // One element per call: no vector body anywhere.
      for (std::int64_t i = begin; i < begin + elements; ++i) {
        update(form, gradient, expected, i, i + 1, Isa::scalar);
      }
      for (const Isa isa : supported_isas()) {
        Arrays actual = start;
        update(form, gradient, actual, begin, begin + elements, isa);
        EXPECT_EQ(actual, expected) << name_of(isa) << ' ' << elements;  // the rest untouched, too
      }
    }
  });
}

TEST(IsaBits, AdamInRandomSplits) {
  constexpr std::int64_t kElements = 5000;
  for_each_form([&](Form form, Dtype gradient) {
    for (const Method method : {Method::adamw, Method::adam}) {
      std::mt19937 random(11);
      const Arrays start(kElements, random);
      Arrays expected = start;
      update(form, gradient, expected, 0, kElements, Isa::scalar, method);
      for (const Isa isa : supported_isas()) {
        Arrays actual = start;
        for (std::int64_t begin = 0; begin < kElements;) {
          const std::int64_t end =
              std::min(kElements, begin + 1 + static_cast<std::int64_t>(random() % 700));
          update(form, gradient, actual, begin, end, isa, method);
          begin = end;
        }
        EXPECT_EQ(actual, expected) << name_of(isa);
      }
    }
  });
}

TEST(IsaBits, AdamOnSubnormalAndHugeNumbers) {
  constexpr std::int64_t kElements = 4000;
  std::mt19937 random(13);
  Arrays start(kElements, random);
  start.moment1 = random_floats(kElements, 18, random);
  start.moment2 = random_floats(kElements, 37, random);
  start.gradient = random_floats(kElements, 18, random);
  for (float& v : start.moment2) v = std::abs(v);
  for (std::size_t i = 0; i < kElements; i += 3) start.moment2[i] = start.moment1[i] = 0;
  Arrays expected = start;
  (void)adam_update(kStep, expected.split(Dtype::f32, 0, kElements), Isa::scalar);
  for (const Isa isa : supported_isas()) {
    Arrays actual = start;
    (void)adam_update(kStep, actual.split(Dtype::f32, 0, kElements), isa);
    EXPECT_EQ(actual.weight, expected.weight) << name_of(isa);
    EXPECT_EQ(actual.remainder, expected.remainder) << name_of(isa);
    EXPECT_EQ(actual.moment1, expected.moment1) << name_of(isa);
    EXPECT_EQ(actual.moment2, expected.moment2) << name_of(isa);
  }
}

TEST(IsaBits, SpansAtEveryShortLengthAndOffset) {
  for (std::size_t elements = 0; elements <= 70; ++elements) {
    const std::size_t begin = elements % 13;
    std::mt19937 random(static_cast<unsigned>(elements));
    const Arrays a(100, random);
    const Arrays b(100, random);
    const auto floats = std::span(a.gradient).subspan(begin, elements);
    const auto bf16s = std::span(a.gradient_bf16).subspan(begin, elements);
    bool finite = true;
    const double sum_f32 = gradient_square_sum(floats, Isa::scalar, &finite);
    const double sum_bf16 = gradient_square_sum(bf16s, Isa::scalar, &finite);
    for (const Isa isa : supported_isas()) {
      EXPECT_EQ(gradient_square_sum(floats, isa, &finite), sum_f32) << name_of(isa);
      EXPECT_EQ(gradient_square_sum(bf16s, isa, &finite), sum_bf16) << name_of(isa);
      std::vector<float> sums = b.gradient;
      accumulate(std::span(sums).subspan(begin, elements), floats, isa);
      std::vector<bf16> rounded = b.gradient_bf16;
      round_to_bf16(std::span(rounded).subspan(begin, elements), floats, isa);
      for (std::size_t i = 0; i < 100; ++i) {
        const bool inside = i >= begin && i < begin + elements;
        EXPECT_EQ(sums[i], inside ? b.gradient[i] + a.gradient[i] : b.gradient[i]);
        EXPECT_EQ(rounded[i], inside ? a.gradient_bf16[i] : b.gradient_bf16[i]);
      }
    }
    EXPECT_TRUE(finite);
  }
}

}  // namespace
}  // namespace strata::optim
