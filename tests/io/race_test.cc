// In builds with -fsanitize=thread: a buffer used before its wait() is a reported race, whether
// the kernel or a thread of ours transfers the bytes; one used after it is not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "io/volume.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

enum class Wait { before_use, after_use };

template <typename Submit>
[[noreturn]] void use_buffer(EngineKind engine, Wait wait, const Submit& submit) {
  Budget budget("host memory", kMiB);
  AlignedBuffer buffer(budget, "test", kPageBytes);
  VolumeOptions options;
  options.directories = {{testing::TempDir(), 0}};
  options.engine.kind = engine;
  options.capacity_bytes = kMiB;
  {
    const auto storage = create_volume(options, nullptr);
    IoGroup group;
    submit(*storage, buffer.span(), group);
    if (wait == Wait::before_use) group.wait();
    *buffer.as<volatile char>() = 1;
    group.wait();
  }
  std::exit(0);
}

constexpr auto submit_read = [](Storage& storage, AlignedSpan span, IoGroup& group) {
  storage.read(0, span, group);
};
constexpr auto submit_write = [](Storage& storage, AlignedSpan span, IoGroup& group) {
  storage.write(0, span, group);
};

class RaceDeathTest : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
#if !defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "not built with -fsanitize=thread";
#endif
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
};

// 66: ThreadSanitizer's exit code after a report.
TEST_P(RaceDeathTest, AReadsDestinationUsedBeforeTheWaitIsReported) {
  EXPECT_EXIT(use_buffer(GetParam(), Wait::after_use, submit_read), testing::ExitedWithCode(66),
              "data race");
}
TEST_P(RaceDeathTest, AWritesSourceChangedBeforeTheWaitIsReported) {
  EXPECT_EXIT(use_buffer(GetParam(), Wait::after_use, submit_write), testing::ExitedWithCode(66),
              "data race");
}
TEST_P(RaceDeathTest, UseAfterTheWaitIsNot) {
  EXPECT_EXIT(use_buffer(GetParam(), Wait::before_use, submit_read), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(use_buffer(GetParam(), Wait::before_use, submit_write), testing::ExitedWithCode(0),
              "");
}

INSTANTIATE_TEST_SUITE_P(Engines, RaceDeathTest,
                         testing::Values(EngineKind::uring, EngineKind::threads));

}  // namespace
}  // namespace strata::io
