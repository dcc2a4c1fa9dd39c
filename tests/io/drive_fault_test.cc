// What real drives and systems do on a bad day: full, lost, stuck, read-only, forbidden. On loop
// devices, where the test has the right to make them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "io/engine_storage.h"
#include "io/scratch_file.h"
#include "io/volume.h"
#include "io/volume_file.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "tests/io/deny_system_call.h"
#include "tests/io/failure_of.h"
#include "tests/io/loop_mount.h"
#include "tests/io/pattern.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

constexpr const char* kNoMount = "no right to make and mount loop devices";

VolumeOptions options_in(const std::vector<std::string>& directories, std::int64_t capacity_bytes) {
  VolumeOptions options;
  for (const std::string& directory : directories) options.directories.push_back({directory, 1e9});
  options.file_name = "state";
  options.capacity_bytes = capacity_bytes;
  options.stripe_bytes = 64 * kKiB;
  options.engine.queue_depth = 8;
  options.engine.request_bytes_max = 64 * kKiB;
  return options;
}

std::string creation_failure(const VolumeOptions& options) {
  try {
    create_volume(options, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class DriveFaultTest : public testing::Test {
 protected:
  AlignedBuffer buffer(std::int64_t bytes) { return AlignedBuffer(budget_, "test", bytes); }
  Budget budget_{"host memory", 256 * kMiB};
};

TEST_F(DriveFaultTest, AFullDiskIsRefusedWithBytesNeededAndFreeAndNothingIsLeft) {
  const LoopMount small(16 * kMiB);
  const LoopMount large(32 * kMiB);
  if (!small.mounted() || !large.mounted()) GTEST_SKIP() << kNoMount;
  const std::string failure =
      creation_failure(options_in({small.directory(), large.directory()}, 64 * kMiB));
  // Stripes are whole, so that one per directory may have to spare.
  EXPECT_TRUE(says(failure, fmt::format("({} bytes) are needed and", 64 * kMiB + 128 * kKiB)))
      << failure;
  EXPECT_TRUE(says(failure, "bytes) in " + large.directory())) << failure;
  EXPECT_FALSE(std::filesystem::exists(small.directory() + "/state"));
  EXPECT_FALSE(std::filesystem::exists(large.directory() + "/state"));
}

// A file whose blocks are not reserved, as no volume has: the drive itself says ENOSPC.
TEST_F(DriveFaultTest, AWriteToAFullDiskFailsWithEnospc) {
  const LoopMount mount(16 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << kNoMount;
  const DirectFile file = open_scratch_file(mount.directory());
  EngineStorage storage({.path = file.path(), .capacity_bytes = 32 * kMiB, .queue_depth = 4},
                        make_engine(file.descriptor(), file.path(), {.queue_depth = 4}), nullptr);
  const AlignedBuffer data = buffer(32 * kMiB);
  IoGroup group;
  storage.write(0, data.span(), group);
  const std::string failure = failure_of(group);
  EXPECT_TRUE(says(failure, "write " + file.path() + " at offset ")) << failure;
  EXPECT_TRUE(says(failure, "No space left on device (errno 28)")) << failure;
}

// Its blocks are its own from the start: what others do to the disk later cannot fail a write.
TEST_F(DriveFaultTest, AVolumeWritesToADiskThatFilledUpLater) {
  const LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << kNoMount;
  const auto volume = create_volume(options_in({mount.directory()}, 8 * kMiB), nullptr);
  {
    std::ofstream rest(mount.directory() + "/rest", std::ios::binary);
    const std::vector<char> block(64 * kKiB, 'x');
    while (rest.write(block.data(), std::ssize(block)).flush()) {
    }
  }
  const AlignedBuffer data = buffer(8 * kMiB);
  fill(data.span(), 0, 1);
  IoGroup group;
  volume->write(0, data.span(), group);
  EXPECT_EQ(failure_of(group), "");
}

TEST_F(DriveFaultTest, AFullDirectoryIsRefusedByNameThoughAnotherHasRoom) {
  const LoopMount full(16 * kMiB);
  const test::TemporaryFolder roomy;
  if (!full.mounted()) GTEST_SKIP() << kNoMount;
  const std::int64_t free = check_directories({{full.directory(), 0}}, 0)[0];
  const VolumeFile all_of_it(full.directory(), "", free);
  try {
    check_directories({{roomy.path(), 0}, {full.directory(), 0}}, kMiB);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(says(error.what(), "storage directory " + full.directory() + ": 4 KiB"))
        << error.what();
    EXPECT_TRUE(says(error.what(), "leave this directory out")) << error.what();
  }
}

TEST_F(DriveFaultTest, UnequalFreeSpaceIsUsedToTheLast) {
  const LoopMount small(16 * kMiB);
  const LoopMount large(48 * kMiB);
  if (!small.mounted() || !large.mounted()) GTEST_SKIP() << kNoMount;
  const std::vector<VolumeDirectory> directories = {{small.directory(), 1e9},
                                                    {large.directory(), 1e9}};
  const std::vector<std::int64_t> free = check_directories(directories, 0);
  // All there is, but for a stripe per directory.
  const std::int64_t stripes = (free[0] + free[1]) / (64 * kKiB) - 2;
  const VolumeOptions options =
      options_in({small.directory(), large.directory()}, stripes * 64 * kKiB);
  const auto volume = create_volume(options, nullptr);
  EXPECT_GE(volume->share(0).stripes, free[0] / (64 * kKiB) - 2);
  EXPECT_GT(volume->share(1).stripes, volume->share(0).stripes);
  const AlignedBuffer data = buffer(volume->capacity_bytes());
  fill(data.span(), 0, 1);
  IoGroup group;
  volume->write(0, data.span(), group);
  ASSERT_EQ(failure_of(group), "");
  std::fill_n(data.data(), data.bytes(), std::byte{0});
  volume->read(0, data.span(0, volume->capacity_bytes()), group);
  ASSERT_EQ(failure_of(group), "");
  EXPECT_EQ(first_difference(data.span(0, volume->capacity_bytes()), 0, 1), -1);
}

TEST_F(DriveFaultTest, TheStrictestAlignmentOfItsDrivesIsTheVolumes) {
  const LoopMount coarse(32 * kMiB, 4096);
  const LoopMount fine(32 * kMiB, 512);
  if (!coarse.mounted() || !fine.mounted()) GTEST_SKIP() << kNoMount;
  const auto volume =
      create_volume(options_in({fine.directory(), coarse.directory()}, kMiB), nullptr);
  EXPECT_EQ(volume->alignment_bytes(), 4096);
  const AlignedBuffer data = buffer(kMiB);
  fill(data.span(), 0, 1);
  IoGroup group;
  volume->write(0, data.span(), group);
  EXPECT_EQ(failure_of(group), "");
}

TEST_F(DriveFaultTest, ALostDriveFailsTheGroupWithEioAndItsName) {
  const LoopMount sound(32 * kMiB);
  LoopMount lost(32 * kMiB);
  if (!sound.mounted() || !lost.mounted()) GTEST_SKIP() << kNoMount;
  const auto volume =
      create_volume(options_in({sound.directory(), lost.directory()}, 8 * kMiB), nullptr);
  const AlignedBuffer data = buffer(8 * kMiB);
  IoGroup group;
  volume->write(0, data.span(), group);
  ASSERT_EQ(failure_of(group), "");
  lost.lose_the_device();
  // Stripe 3 is the second of directory 1.
  volume->read(3 * 64 * kKiB, data.span(0, kPageBytes), group);
  EXPECT_EQ(failure_of(group), "read " + lost.directory() +
                                   "/state at offset 65536, 4096 bytes: Input/output error "
                                   "(errno 5)");
  volume->read(2 * 64 * kKiB, data.span(0, kPageBytes), group);
  EXPECT_EQ(failure_of(group), "");
}

TEST_F(DriveFaultTest, AStuckFileSystemFailsTheGroupInsteadOfHanging) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << kNoMount;
  VolumeOptions options = options_in({mount.directory()}, 8 * kMiB);
  options.engine.timeout = std::chrono::milliseconds(64);
  auto volume = create_volume(options, nullptr);
  volume->publish();
  const AlignedBuffer data = buffer(8 * kMiB);
  if (!mount.freeze()) GTEST_SKIP() << "no right to freeze a file system";
  IoGroup group;
  volume->write(0, data.span(), group);
  const std::string failure = failure_of(group);
  EXPECT_TRUE(says(failure, "write " + mount.directory() +
                                "/state at offset 0, 65536 bytes: not completed after"))
      << failure;
  volume.reset();  // does not wait until the file can be deleted
  EXPECT_TRUE(mount.thaw());
}

TEST_F(DriveFaultTest, AReadOnlyFileSystemIsRefused) {
  LoopMount mount(16 * kMiB);
  if (!mount.mounted() || !mount.make_read_only()) GTEST_SKIP() << kNoMount;
  EXPECT_EQ(creation_failure(options_in({mount.directory()}, kMiB)),
            "storage directory " + mount.directory() +
                ": the file system is read-only; remount it or give another directory");
}

// Prints what creating a volume says and ends with 3, or with 0 when it works: for children that
// have given up a right.
[[noreturn]] void create_and_exit(const VolumeOptions& options) {
  const std::string failure = creation_failure(options);
  std::fputs(failure.c_str(), stderr);
  std::_Exit(failure.empty() ? 0 : 3);
}

using DriveFaultDeathTest = DriveFaultTest;

TEST_F(DriveFaultDeathTest, ADirectoryWithoutPermissionIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "not root, who could become somebody else";
  const test::TemporaryFolder root;
  constexpr uid_t kNobody = 65534;
  chmod(root.path().c_str(), 0755);
  const auto body = [&] {
    if (setuid(kNobody) != 0) std::_Exit(77);
    create_and_exit(options_in({root.path()}, kMiB));
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "strata-test-.*: no permission to create files there; change its mode");
}

// A file size limit cannot be raised again.
TEST_F(DriveFaultDeathTest, AFileSizeLimitIsAnErrorThatNamesTheFile) {
  const test::TemporaryFolder root;
  const auto body = [&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{kMiB, kMiB};
    setrlimit(RLIMIT_FSIZE, &limit);
    create_and_exit(options_in({root.path()}, 2 * kMiB));
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "fallocate .*/state, 2097152 bytes: File too large");
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

TEST_F(DriveFaultDeathTest, WhereIoUringIsForbiddenThreadsDoTheWork) {
  const test::TemporaryFolder root;
  const auto body = [&] {
    deny_system_call(__NR_io_uring_setup, EPERM);
    VolumeOptions options = options_in({root.path()}, kMiB);
    const EngineChoice choice = choose_engine(EngineKind::automatic);
    options.engine.kind = choice.kind;
    std::fputs(choice.reason.c_str(), stderr);
    const auto volume = create_volume(options, nullptr);
    const AlignedBuffer data = buffer(kMiB);
    fill(data.span(), 0, 1);
    IoGroup group;
    volume->write(0, data.span(), group);
    group.wait();
    std::fill_n(data.data(), data.bytes(), std::byte{0});
    volume->read(0, data.span(), group);
    group.wait();
    std::_Exit(first_difference(data.span(), 0, 1) == -1 ? 3 : 4);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3), "threads: .*Operation not permitted .errno 1.");
}

TEST_F(DriveFaultDeathTest, WhereIoUringIsForbiddenAndAskedForTheErrorNamesTheFile) {
  const test::TemporaryFolder root;
  const auto body = [&] {
    deny_system_call(__NR_io_uring_setup, EPERM);
    create_and_exit(options_in({root.path()}, kMiB));
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "io_uring .*/state: Operation not permitted .errno 1.");
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

}  // namespace
}  // namespace strata::io
