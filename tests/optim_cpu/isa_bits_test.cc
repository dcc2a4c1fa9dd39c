// One arithmetic: the same bits from every instruction set, at every length, alignment and split.
#include <gtest/gtest.h>

#include <algorithm>

#include "optim_cpu/gradient.h"
#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

StepSettings settings_of(const Form& form) {
  return {.method = form.method, .gradient_scale = 0.7f, .step = 3, .seed = 5};
}
constexpr Group kGroup{1e-3f, 0.1f};

void update_part(const Form& form, Arrays& arrays, std::int64_t begin, std::int64_t end, Isa isa) {
  ASSERT_TRUE(update(settings_of(form), kGroup, arrays.state(form, begin, end), isa));
}

// The smallest piece that a call may have.
std::int64_t grain_of(const Form& form) {
  return form.moments == MomentFormat::int8 ? kScaleElements : 1;
}

// In pieces of one grain, by scalar code. The vector body of a loop sees none of it.
void update_in_grains(const Form& form, Arrays& arrays, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += grain_of(form)) {
    update_part(form, arrays, i, std::min(end, i + grain_of(form)), Isa::scalar);
  }
}

// Elements before and behind stay untouched, too.
void expect_same_bits(const Form& form, std::int64_t begin, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(elements));
  const Arrays start(begin + elements + 40, random);
  Arrays expected = start;
  update_in_grains(form, expected, begin, begin + elements);
  for (const Isa isa : supported_isas()) {
    Arrays actual = start;
    update_part(form, actual, begin, begin + elements, isa);
    EXPECT_EQ(actual, expected) << form.text() << ' ' << name_of(isa) << ' ' << elements;
  }
}

TEST(IsaBits, EveryShortLengthAndOffset) {
  for_each_form([](const Form& form) {
    for (std::int64_t elements = 0; elements <= 257; ++elements) {
      expect_same_bits(form, elements % 17 * grain_of(form), elements);
    }
  });
}

TEST(IsaBits, LengthsAroundPowersOfTwo) {
  for_each_form([](const Form& form) {
    for (std::int64_t power = 512; power <= 8192; power *= 2) {
      for (const std::int64_t elements : {power - 1, power, power + 1}) {
        expect_same_bits(form, power / 512 % 7 * grain_of(form), elements);
      }
    }
  });
}

// Offsets of 0 to 31 elements from an allocation: every one within a 64-byte line, of every array.
TEST(IsaBits, EveryMisalignment) {
  for_each_form([](const Form& form) {
    for (std::int64_t begin = 0; begin < 32; ++begin) {
      expect_same_bits(form, begin * grain_of(form), 100);
    }
  });
}

TEST(IsaBits, RandomSplits) {
  constexpr std::int64_t kElements = 5000;
  for_each_form([&](const Form& form) {
    std::mt19937 random(11);
    const Arrays start(kElements, random);
    Arrays expected = start;
    update_part(form, expected, 0, kElements, Isa::scalar);
    for (const Isa isa : supported_isas()) {
      Arrays actual = start;
      for (std::int64_t begin = 0; begin < kElements;) {
        const auto grains = 1 + static_cast<std::int64_t>(random() % 700) / grain_of(form);
        const std::int64_t end = std::min(kElements, begin + grains * grain_of(form));
        update_part(form, actual, begin, end, isa);
        begin = end;
      }
      EXPECT_EQ(actual, expected) << form.text() << ' ' << name_of(isa);
    }
  });
}

TEST(IsaBits, SubnormalAndHugeNumbers) {
  const Arrays start = subnormal_and_huge();
  for_each_form([&](const Form& form) {
    Arrays expected = start;
    (void)update(settings_of(form), kGroup, expected.state(form, 0, start.elements()), Isa::scalar);
    for (const Isa isa : supported_isas()) {
      Arrays actual = start;
      (void)update(settings_of(form), kGroup, actual.state(form, 0, start.elements()), isa);
      EXPECT_EQ(actual, expected) << form.text() << ' ' << name_of(isa);
    }
  });
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
