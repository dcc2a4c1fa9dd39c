#include "io/volume_file.h"

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

VolumeFile published(const std::string& directory) {
  VolumeFile file(directory, kName, kMiB);
  file.publish();
  return file;
}

class VolumeFileTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path(kName); }

  // What making it again says.
  std::string refusal() const {
    try {
      VolumeFile again(directory_.path(), kName, kMiB);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryFolder directory_;
};

TEST_F(VolumeFileTest, HasItsBlocksFromTheStart) {
  const VolumeFile file = published(directory_.path());
  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_size, kMiB);
  EXPECT_GE(status.st_blocks * 512, kMiB);
}

TEST_F(VolumeFileTest, IsOpenForDirectIo) {
  const VolumeFile file = published(directory_.path());
  EXPECT_NE(fcntl(file.file().descriptor(), F_GETFL) & O_DIRECT, 0);
  EXPECT_NE(fcntl(file.file().descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(VolumeFileTest, IsDeletedUnlessKept) {
  { const VolumeFile file = published(directory_.path()); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  { published(directory_.path()).keep(); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(VolumeFileTest, AMovedFileIsDeletedOnce) {
  VolumeFile first = published(directory_.path());
  std::optional<VolumeFile> second(std::move(first));
  second.reset();
  published(directory_.path()).keep();  // the name was free
  { const VolumeFile gone = std::move(first); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

// So that nobody takes one in the making for a dead one.
TEST_F(VolumeFileTest, HasNoNameUntilItIsPublished) {
  VolumeFile file(directory_.path(), kName, kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  file.publish();
  EXPECT_TRUE(FoundVolumeFile(path()).in_use());
}

TEST_F(VolumeFileTest, IsNotPublishedOverAnother) {
  VolumeFile file(directory_.path(), kName, kMiB);
  published(directory_.path()).keep();
  EXPECT_THROW(file.publish(), ConfigError);
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(VolumeFileTest, WithoutANameItIsNowhereToBeSeen) {
  const VolumeFile file(directory_.path(), "", kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(VolumeFileTest, LeavesNothingWhenTheDiskIsTooFull) {
  EXPECT_THROW(VolumeFile(directory_.path(), kName, std::int64_t{1} << 60), ConfigError);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(VolumeFileTest, IsNotMadeWhereOneIsInUse) {
  const VolumeFile file = published(directory_.path());
  EXPECT_EQ(refusal(), "store file " + path() + ": another running process uses it");
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(VolumeFileTest, IsNotMadeWhereOneIsLeftOver) {
  published(directory_.path()).keep();
  EXPECT_EQ(refusal(), "store file " + path() +
                           ": it is left over from a run that ended; `strata gc` of its directory "
                           "removes it");
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(VolumeFileTest, FoundWhileItsMakerLives) {
  const VolumeFile file = published(directory_.path());
  EXPECT_TRUE(FoundVolumeFile(path()).in_use());
}

TEST_F(VolumeFileTest, FoundWhenItsMakerHasEnded) {
  published(directory_.path()).keep();
  const FoundVolumeFile found(path());
  EXPECT_FALSE(found.in_use());
  EXPECT_GE(found.allocated_bytes(), kMiB);
  // Whoever looks has the lock meanwhile, so that two do not tidy up at once.
  EXPECT_TRUE(FoundVolumeFile(path()).in_use());
}

TEST_F(VolumeFileTest, AKilledMakerLeavesItUnlocked) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const VolumeFile file = published(directory_.path());
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(FoundVolumeFile(path()).in_use());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(FoundVolumeFile(path()).in_use());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(VolumeFileTest, FoundFilesAreRead) {
  std::ofstream(path()) << "0123456789";
  const FoundVolumeFile found(path());
  std::array<std::byte, 4> bytes{};
  EXPECT_EQ(found.read(3, bytes), 4);
  EXPECT_EQ(bytes[0], std::byte{'3'});
  EXPECT_EQ(bytes[3], std::byte{'6'});
  EXPECT_EQ(found.read(8, bytes), 2);
  EXPECT_EQ(found.read(10, bytes), 0);
}

TEST_F(VolumeFileTest, FoundFilesAreRemoved) {
  published(directory_.path()).keep();
  FoundVolumeFile(path()).remove();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(VolumeFileTest, AMissingFileIsAnErrorThatNamesIt) {
  try {
    const FoundVolumeFile found(path());
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "open " + path() + ": No such file or directory (errno 2)");
  }
}

using VolumeFileDeathTest = VolumeFileTest;

TEST_F(VolumeFileDeathTest, OneInUseIsNotRemoved) {
  const VolumeFile file = published(directory_.path());
  EXPECT_DEATH(FoundVolumeFile(path()).remove(), "is in use");
}

}  // namespace
}  // namespace strata::io
