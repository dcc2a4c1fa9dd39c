#include "io/file_storage.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/io/failure_of.h"
#include "tests/io/loop_mount.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

FileStorageOptions options_of(std::string directory, std::int64_t capacity_bytes) {
  FileStorageOptions options;
  options.directory = std::move(directory);
  options.capacity_bytes = capacity_bytes;
  options.queue_depth = 8;
  options.request_bytes_max = 64 * kKiB;
  return options;
}

const auto factories = testing::Values(StorageFactory{
    "uring", [] {
      return open_file_storage(options_of(testing::TempDir(), kConformanceCapacityBytes), nullptr);
    }});

INSTANTIATE_TEST_SUITE_P(File, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(File, StorageConformanceDeathTest, factories, storage_name);

// Others use the disk too: what is free may change from one look to the next.
std::string without_free_bytes(const std::string& message) {
  return std::regex_replace(message,
                            std::regex("and [0-9.]+ [A-Za-z]+ \\([0-9]+ bytes\\) are free"),
                            "and N bytes are free");
}

// What open_file_storage() says about a directory, which check_storage_directory() must say too.
std::string refusal_of(const std::string& directory, std::int64_t bytes) {
  std::string opening;
  std::string checking;
  try {
    open_file_storage(options_of(directory, bytes), nullptr);
  } catch (const ConfigError& error) {
    opening = error.what();
  }
  try {
    check_storage_directory(directory, bytes);
  } catch (const ConfigError& error) {
    checking = error.what();
  }
  EXPECT_EQ(without_free_bytes(opening), without_free_bytes(checking));
  EXPECT_EQ(opening.find('\n'), std::string::npos);
  EXPECT_NE(opening.find(directory), std::string::npos) << opening;
  return opening;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class FileStorageTest : public testing::Test {
 protected:
  FileStorageTest() {
    directory_ = testing::TempDir() + "/strata-file-storage-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }
  ~FileStorageTest() override { std::filesystem::remove_all(directory_); }

  Budget budget_{"host memory", 64 * kMiB};
  std::string directory_;
};

TEST_F(FileStorageTest, LeavesNothingInItsDirectory) {
  const auto storage = open_file_storage(options_of(directory_, kMiB), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  check_storage_directory(directory_, kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(FileStorageTest, RoundsItsCapacityUpToItsAlignment) {
  const auto storage = open_file_storage(options_of(directory_, kMiB + 1), nullptr);
  EXPECT_EQ(storage->capacity_bytes(), kMiB + storage->alignment_bytes());
}

TEST_F(FileStorageTest, RefusesADirectoryThatIsMissing) {
  EXPECT_TRUE(says(refusal_of(directory_ + "/missing", kMiB), "no such directory; create it"));
}

TEST_F(FileStorageTest, RefusesAFileAsDirectory) {
  std::ofstream(directory_ + "/file") << "x";
  EXPECT_TRUE(says(refusal_of(directory_ + "/file", kMiB), "not a directory"));
}

TEST_F(FileStorageTest, RefusesMoreThanIsFreeAndSaysBothNumbers) {
  const std::string refusal = refusal_of(directory_, std::int64_t{1} << 60);
  EXPECT_TRUE(says(refusal, "1152921504606846976 bytes) are needed")) << refusal;
  EXPECT_TRUE(says(refusal, "are free; free some space")) << refusal;
}

TEST_F(FileStorageTest, RefusesAReadOnlyFileSystem) {
  LoopMount mount(16 * kMiB);
  if (!mount.mounted() || !mount.make_read_only()) GTEST_SKIP() << "no right to mount";
  EXPECT_TRUE(says(refusal_of(mount.directory(), kMiB), "read-only"));
}

TEST_F(FileStorageTest, ReportsTheFreeBytesOfTheFileSystem) {
  LoopMount mount(16 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  struct statvfs status;
  ASSERT_EQ(statvfs(mount.directory().c_str(), &status), 0);
  const auto free_bytes = static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
  EXPECT_EQ(check_storage_directory(mount.directory(), 0), free_bytes);
  EXPECT_EQ(check_storage_directory(mount.directory(), free_bytes), free_bytes);
  EXPECT_THROW(check_storage_directory(mount.directory(), free_bytes + 1), ConfigError);
}

// Its blocks are its own from the start: what others do to the disk later cannot fail a write.
TEST_F(FileStorageTest, WritesToADiskThatFilledUpLater) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  constexpr std::int64_t kBytes = 8 * kMiB;
  const auto storage = open_file_storage(options_of(mount.directory(), kBytes), nullptr);
  {
    std::ofstream rest(mount.directory() + "/rest", std::ios::binary);
    const std::vector<char> block(64 * kKiB, 'x');
    while (rest.write(block.data(), std::ssize(block)).flush()) {
    }
  }
  AlignedBuffer buffer(budget_, "test", kBytes);
  fill(buffer.span(), 0, 1);
  IoGroup group;
  storage->write(0, buffer.span(), group);
  EXPECT_EQ(failure_of(group), "");
}

TEST_F(FileStorageTest, TakesTheAlignmentOfTheDevice) {
  LoopMount mount(32 * kMiB, 4096);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  const auto storage = open_file_storage(options_of(mount.directory(), kMiB), nullptr);
  EXPECT_EQ(storage->alignment_bytes(), 4096);
}

TEST_F(FileStorageTest, ALostDeviceFailsTheGroupWithEio) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  const auto storage = open_file_storage(options_of(mount.directory(), 8 * kMiB), nullptr);
  AlignedBuffer buffer(budget_, "test", 8 * kMiB);
  IoGroup group;
  storage->write(0, buffer.span(), group);
  ASSERT_EQ(failure_of(group), "");
  mount.lose_the_device();
  storage->read(kMiB, buffer.span(0, kPageBytes), group);
  EXPECT_EQ(failure_of(group), "read " + mount.directory() +
                                   "/(scratch file) at offset 1048576, 4096 bytes: Input/output "
                                   "error (errno 5)");
}

TEST_F(FileStorageTest, AStuckFileSystemFailsTheGroupInsteadOfHanging) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  FileStorageOptions options = options_of(mount.directory(), 8 * kMiB);
  options.timeout = std::chrono::milliseconds(64);
  auto storage = open_file_storage(options, nullptr);
  AlignedBuffer buffer(budget_, "test", 8 * kMiB);
  if (!mount.freeze()) GTEST_SKIP() << "no right to freeze a file system";
  IoGroup group;
  storage->write(0, buffer.span(), group);
  const std::string failure = failure_of(group);
  EXPECT_TRUE(says(failure, "write " + mount.directory() +
                                "/(scratch file) at offset 0, 65536 "
                                "bytes: not completed after"))
      << failure;
  storage.reset();
  EXPECT_TRUE(mount.thaw());
}

// In a child, for a file size limit cannot be raised again.
TEST(FileStorageDeathTest, AFileSizeLimitIsAnErrorThatNamesTheFile) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto body = [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{kMiB, kMiB};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      open_file_storage(options_of(testing::TempDir(), 2 * kMiB), nullptr);
    } catch (const IoError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3), "fallocate .*2097152 bytes: File too large");
}

// Denies io_uring_setup() as container runtimes do.
void deny_io_uring() {
  sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(instructions), instructions};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) std::_Exit(77);
}

TEST(FileStorageDeathTest, SaysWhatToDoWhereIoUringIsForbidden) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto body = [] {
    deny_io_uring();
    try {
      open_file_storage(options_of(testing::TempDir(), kMiB), nullptr);
    } catch (const IoError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "io_uring is not available here: .*Operation not permitted .errno 1.; allow it");
}

}  // namespace
}  // namespace strata::io
