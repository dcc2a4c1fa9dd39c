#include "kernels/ops/cpu/bf16_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/base/aligned_buffer.h"
#include "tests/kernels/ops/op_testing.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kGap = 3;  // between rows

std::vector<bf16> random_elements(std::int64_t elements, unsigned seed) {
  std::vector<bf16> result;
  for (const float value : random_values(Dtype::bf16, elements, seed)) {
    result.push_back(to_bf16_nearest_even(value));
  }
  return result;
}

std::string describe(const GemmSpec& spec) {
  return fmt::format("{}x{}x{}, A {}, B {}, {} results, into {}, bias {}", spec.m, spec.n, spec.k,
                     static_cast<int>(spec.a_layout), static_cast<int>(spec.b_layout),
                     name_of(spec.result), static_cast<int>(spec.into),
                     static_cast<int>(spec.bias));
}

// Against sums in f64. VDPBF16PS rounds every product's sum to f32: k roundings of at most the sum
// of magnitudes; then one to bf16.
void expect_product(GemmSpec spec) {
  const bool a_plain = spec.a_layout == Layout::plain;
  const bool b_plain = spec.b_layout == Layout::plain;
  spec.a_stride = (a_plain ? spec.k : spec.m) + kGap;
  spec.b_stride = (b_plain ? spec.n : spec.k) + kGap;
  spec.c_stride = spec.n + kGap;
  spec.operands = Dtype::bf16;
  if (!bf16_gemm_does(spec)) {
    EXPECT_TRUE((!a_plain || b_plain) && spec.k > 768) << describe(spec);
    return;
  }
  // Not an element more than the operands have, for a sanitizer to see.
  const auto elements = [](std::int64_t rows, std::int64_t stride) { return rows * stride - kGap; };
  const std::vector<bf16> a =
      random_elements(elements(a_plain ? spec.m : spec.k, spec.a_stride), 1);
  const std::vector<bf16> b =
      random_elements(elements(b_plain ? spec.k : spec.n, spec.b_stride), 2);
  const std::vector<bf16> bias = random_elements(spec.n, 3);
  const std::vector<bf16> before = random_elements(elements(spec.m, spec.c_stride), 4);
  std::vector<bf16> c_bf16 = before;
  std::vector<float> c_f32;
  for (const bf16 value : before) c_f32.push_back(to_float(value));
  Budget budget("memory", 2 * kMiB);
  const AlignedBuffer scratchpad(budget, "scratchpad", kGemmScratchpadBytes);

  const bool f32 = spec.result == Dtype::f32;
  bf16_gemm(spec, f32 ? static_cast<void*>(c_f32.data()) : c_bf16.data(), a.data(), b.data(),
            spec.bias == Bias::none ? nullptr : bias.data(), scratchpad.data());

  int wrong = 0;
  for (std::int64_t row = 0; row < spec.m; ++row) {
    for (std::int64_t col = 0; col < spec.c_stride; ++col) {
      const auto at = static_cast<std::size_t>(row * spec.c_stride + col);
      if (at >= before.size()) break;
      const double old = to_float(before[at]);
      const double got = f32 ? c_f32[at] : to_float(c_bf16[at]);
      if (col >= spec.n) {
        wrong += got != old;
        continue;
      }
      double sum = spec.into == Into::add ? old : 0.0;
      if (spec.bias == Bias::per_column) sum += to_float(bias[static_cast<std::size_t>(col)]);
      double magnitude = std::abs(sum);
      for (std::int64_t i = 0; i < spec.k; ++i) {
        const double product = double{to_float(a[static_cast<std::size_t>(
                                   a_plain ? row * spec.a_stride + i : i * spec.a_stride + row)])} *
                               to_float(b[static_cast<std::size_t>(
                                   b_plain ? i * spec.b_stride + col : col * spec.b_stride + i)]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double tolerance = static_cast<double>(spec.k + 2) * kF32Rounding * magnitude +
                               (f32 ? 0.0 : kBf16Rounding * std::abs(sum));
      wrong += !(std::abs(got - sum) <= tolerance);
    }
  }
  EXPECT_EQ(wrong, 0) << describe(spec);
}

TEST(Bf16Gemm, EveryLayoutAndResult) {
  if (!bf16_gemm_supported()) GTEST_SKIP() << "no VDPBF16PS";
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size size : {Size{1, 1, 2}, Size{7, 33, 30}, Size{13, 64, 66}, Size{20, 150, 34},
                          Size{256, 512, 32}, Size{9, 70, 1600}}) {
    for (const Layout a : {Layout::plain, Layout::transposed}) {
      for (const Layout b : {Layout::plain, Layout::transposed}) {
        for (const Dtype result : {Dtype::f32, Dtype::bf16}) {
          for (const Into into : {Into::overwrite, Into::add}) {
            for (const Bias bias : {Bias::none, Bias::per_column}) {
              expect_product({.m = size.m,
                              .n = size.n,
                              .k = size.k,
                              .a_layout = a,
                              .b_layout = b,
                              .result = result,
                              .into = into,
                              .bias = bias});
            }
          }
        }
      }
    }
  }
}

TEST(Bf16Gemm, LeavesOtherProductsToTheLibrary) {
  const GemmSpec spec = {.m = 8, .n = 8, .k = 8, .operands = Dtype::bf16};
  EXPECT_TRUE(bf16_gemm_does(spec));
  GemmSpec odd = spec;
  odd.k = 7;
  EXPECT_FALSE(bf16_gemm_does(odd));
  GemmSpec f32 = spec;
  f32.operands = Dtype::f32;
  EXPECT_FALSE(bf16_gemm_does(f32));
  GemmSpec tall = spec;
  tall.m = 257;
  EXPECT_FALSE(bf16_gemm_does(tall));
}

}  // namespace
}  // namespace strata::ops::cpu
