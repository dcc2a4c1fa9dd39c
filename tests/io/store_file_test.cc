#include "io/store_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

constexpr const char* kName = "rank0.store";

class StoreFileTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path(kName); }

  // What making it again says.
  std::string refusal() const {
    try {
      StoreFile again(directory_.path(), kName, kMiB);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryFolder directory_;
};

TEST_F(StoreFileTest, HasItsBlocksFromTheStart) {
  const StoreFile file(directory_.path(), kName, kMiB);
  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_size, kMiB);
  EXPECT_GE(status.st_blocks * 512, kMiB);
}

TEST_F(StoreFileTest, IsOpenForDirectIo) {
  const StoreFile file(directory_.path(), kName, kMiB);
  EXPECT_NE(fcntl(file.file().descriptor(), F_GETFL) & O_DIRECT, 0);
  EXPECT_NE(fcntl(file.file().descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(StoreFileTest, IsDeletedUnlessKept) {
  { StoreFile file(directory_.path(), kName, kMiB); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  { StoreFile(directory_.path(), kName, kMiB).keep(); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(StoreFileTest, AMovedFileIsDeletedOnce) {
  StoreFile first(directory_.path(), kName, kMiB);
  std::optional<StoreFile> second(std::move(first));
  second.reset();
  StoreFile(directory_.path(), kName, kMiB).keep();  // the name was free
  { const StoreFile gone = std::move(first); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(StoreFileTest, WithoutANameItIsNowhereToBeSeen) {
  const StoreFile file(directory_.path(), "", kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(StoreFileTest, LeavesNothingWhenTheDiskIsTooFull) {
  EXPECT_THROW(StoreFile(directory_.path(), kName, std::int64_t{1} << 60), ConfigError);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(StoreFileTest, IsNotMadeWhereOneIsInUse) {
  const StoreFile file(directory_.path(), kName, kMiB);
  EXPECT_EQ(refusal(), "store file " + path() + ": another running process uses it");
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(StoreFileTest, IsNotMadeWhereOneIsLeftOver) {
  StoreFile(directory_.path(), kName, kMiB).keep();
  EXPECT_EQ(refusal(), "store file " + path() +
                           ": it is left over from a run that ended; `strata gc` of its directory "
                           "removes it");
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(StoreFileTest, FoundWhileItsMakerLives) {
  const StoreFile file(directory_.path(), kName, kMiB);
  EXPECT_TRUE(FoundStoreFile(path()).in_use());
}

TEST_F(StoreFileTest, FoundWhenItsMakerHasEnded) {
  StoreFile(directory_.path(), kName, kMiB).keep();
  const FoundStoreFile found(path());
  EXPECT_FALSE(found.in_use());
  EXPECT_EQ(found.bytes(), kMiB);
  EXPECT_GE(found.allocated_bytes(), kMiB);
  // Whoever looks has the lock meanwhile, so that two do not tidy up at once.
  EXPECT_TRUE(FoundStoreFile(path()).in_use());
}

TEST_F(StoreFileTest, AKilledMakerLeavesItUnlocked) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const StoreFile file(directory_.path(), kName, kMiB);
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(FoundStoreFile(path()).in_use());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(FoundStoreFile(path()).in_use());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(StoreFileTest, FoundFilesAreRead) {
  std::ofstream(path()) << "0123456789";
  const FoundStoreFile found(path());
  std::array<std::byte, 4> bytes{};
  EXPECT_EQ(found.read(3, bytes), 4);
  EXPECT_EQ(bytes[0], std::byte{'3'});
  EXPECT_EQ(bytes[3], std::byte{'6'});
  EXPECT_EQ(found.read(8, bytes), 2);
  EXPECT_EQ(found.read(10, bytes), 0);
}

TEST_F(StoreFileTest, FoundFilesAreRemoved) {
  StoreFile(directory_.path(), kName, kMiB).keep();
  FoundStoreFile(path()).remove();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(StoreFileTest, AMissingFileIsAnErrorThatNamesIt) {
  try {
    const FoundStoreFile found(path());
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "open " + path() + ": No such file or directory (errno 2)");
  }
}

using StoreFileDeathTest = StoreFileTest;

TEST_F(StoreFileDeathTest, OneInUseIsNotRemoved) {
  const StoreFile file(directory_.path(), kName, kMiB);
  EXPECT_DEATH(FoundStoreFile(path()).remove(), "is in use");
}

}  // namespace
}  // namespace strata::io
