#include "kernels/base/isa.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "kernels/base/system_file.h"
#include "tests/support/error_text.h"

namespace strata {
namespace {

TEST(Isa, NamesAndTextsAgree) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) {
      EXPECT_EQ(parse_isa(name_of(isa)), isa);
    } else {
      EXPECT_THROW((void)parse_isa(name_of(isa)), ConfigError);
    }
  }
  EXPECT_EQ(parse_isa("auto"), best_isa());
  EXPECT_TRUE(isa_supported(best_isa()));
  EXPECT_TRUE(isa_supported(Isa::scalar));
}

TEST(Isa, UnknownNamesAreRefusedWithTheChoices) {
  for (const char* name : {"", "AVX2", "sse", "avx"}) {
    const std::string text = test::error_text<ConfigError>([&] { (void)parse_isa(name); });
    EXPECT_TRUE(test::mentions(text, "avx512, avx2 or scalar")) << text;
  }
}

TEST(Isa, AgreesWithTheKernelsListOfFlags) {
  const std::string flags = read_system_file("/proc/cpuinfo").value_or("");
  if (!test::mentions(flags, "flags")) GTEST_SKIP() << "no x86 flags in /proc/cpuinfo";
  const auto has = [&](const char* flag) {
    return test::mentions(flags, std::string(" ") + flag + " ");
  };
  EXPECT_EQ(isa_supported(Isa::avx2), has("avx2") && has("fma") && has("f16c") && has("bmi2"));
  EXPECT_EQ(isa_supported(Isa::avx512),
            has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq"));
}

}  // namespace
}  // namespace strata
