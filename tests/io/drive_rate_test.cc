#include "io/drive_rate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/drive_space.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/io/loop_mount.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

class DriveRateOfEngine : public testing::TestWithParam<EngineKind> {};

// How fast a drive is no test can know; between 1 MB/s and 1 TB/s all are.
TEST_P(DriveRateOfEngine, IsThatOfADrive) {
  const test::TemporaryFolder folder;
  EngineOptions options;
  options.kind = GetParam();
  const double rate = measure_drive_rate(folder.path(), options);
  EXPECT_GT(rate, 1e6);
  EXPECT_LT(rate, 1e12);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Engines, DriveRateOfEngine,
                         testing::Values(EngineKind::uring, EngineKind::threads));

TEST(DriveRate, ASmallDiskIsMeasuredWithLess) {
  const LoopMount mount(16 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  EXPECT_GT(measure_drive_rate(mount.directory(), {}), 0);
}

TEST(DriveRate, ADiskTooFullToTryHasNone) {
  const LoopMount mount(4 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  EXPECT_EQ(measure_drive_rate(mount.directory(), {}), 0);
}

TEST(DriveRate, ALostDriveIsAnError) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  mount.lose_the_device();
  EXPECT_THROW(measure_drive_rate(mount.directory(), {}), IoError);
}

TEST(DriveOf, DirectoriesOnOneDriveHaveTheSame) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(drive_of(folder.make_folder("a")), drive_of(folder.make_folder("b")));
}

TEST(DriveOf, DirectoriesOnTwoDrivesHaveNot) {
  const LoopMount first(4 * kMiB);
  const LoopMount second(4 * kMiB);
  if (!first.mounted() || !second.mounted()) GTEST_SKIP() << "no right to mount";
  EXPECT_NE(drive_of(first.directory()), drive_of(second.directory()));
}

}  // namespace
}  // namespace strata::io
