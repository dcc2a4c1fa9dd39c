#include "io/engine_choice.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "io/uring_probe.h"
#include "kernels/base/error.h"
#include "tests/io/deny_system_call.h"

namespace strata::io {
namespace {

TEST(EngineChoice, ParsesTheNamesOfTheOption) {
  EXPECT_EQ(parse_engine("auto"), EngineKind::automatic);
  EXPECT_EQ(parse_engine("uring"), EngineKind::uring);
  EXPECT_EQ(parse_engine("threads"), EngineKind::threads);
}

TEST(EngineChoice, AnyOtherNameIsAnError) {
  try {
    parse_engine("aio");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "--io-engine aio: auto, uring or threads");
  }
}

TEST(EngineChoice, ThreadsNeedNoProbe) {
  const EngineChoice choice = choose_engine(EngineKind::threads);
  EXPECT_EQ(choice.kind, EngineKind::threads);
  EXPECT_EQ(choice.reason, "threads: asked for");
}

TEST(EngineChoice, PrefersIoUringAndSaysWhatItCanRegister) {
  const UringSupport support = probe_uring();
  if (!support.usable()) GTEST_SKIP() << support.obstacle;
  for (const EngineKind wanted : {EngineKind::automatic, EngineKind::uring}) {
    const EngineChoice choice = choose_engine(wanted);
    EXPECT_EQ(choice.kind, EngineKind::uring);
    EXPECT_EQ(choice.reason.find("uring: io_uring works here, buffers can"), 0u) << choice.reason;
    EXPECT_EQ(choice.reason.find('\n'), std::string::npos);
  }
}

class EngineChoiceDeathTest : public testing::Test {
 protected:
  EngineChoiceDeathTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  // Prints the reason (exit code 3) or the error (4).
  [[noreturn]] static void choose_without_uring(EngineKind wanted, unsigned error_number) {
    deny_system_call(__NR_io_uring_setup, error_number);
    try {
      const EngineChoice choice = choose_engine(wanted);
      std::fputs(choice.reason.c_str(), stderr);
      std::_Exit(choice.kind == EngineKind::threads ? 3 : 5);
    } catch (const ConfigError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(4);
    }
  }
};

TEST_F(EngineChoiceDeathTest, TakesThreadsWhereASeccompFilterForbidsIoUring) {
  EXPECT_EXIT(choose_without_uring(EngineKind::automatic, EPERM), testing::ExitedWithCode(3),
              "^threads: io_uring_setup: Operation not permitted .errno 1.: a seccomp filter");
}

TEST_F(EngineChoiceDeathTest, TakesThreadsWhereIoUringIsNotImplemented) {
  EXPECT_EXIT(choose_without_uring(EngineKind::automatic, ENOSYS), testing::ExitedWithCode(3),
              "^threads: io_uring_setup: Function not implemented .errno 38.: a seccomp filter");
}

TEST_F(EngineChoiceDeathTest, IoUringAskedForAndRefusedIsAnErrorThatSaysWhatToDo) {
  EXPECT_EXIT(choose_without_uring(EngineKind::uring, EPERM), testing::ExitedWithCode(4),
              "^--io-engine uring: .*a seccomp filter.*; use a seccomp profile that permits "
              "io_uring, or use --io-engine threads$");
}

}  // namespace
}  // namespace strata::io
