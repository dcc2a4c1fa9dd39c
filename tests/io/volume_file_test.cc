#include "io/volume_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
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
  EXPECT_FALSE(FoundVolumeFile(path()).in_use());  // others may look, too
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

TEST_F(VolumeFileTest, OneInUseIsNotRemoved) {
  const VolumeFile file = published(directory_.path());
  EXPECT_THROW(FoundVolumeFile(path()).remove(), ConfigError);
  EXPECT_TRUE(std::filesystem::exists(path()));
}

// Two `strata gc` at once.
TEST_F(VolumeFileTest, RemovedByTwoItIsGoneOnce) {
  published(directory_.path()).keep();
  std::optional<FoundVolumeFile> first(path());
  std::optional<FoundVolumeFile> second(path());
  const auto remove = [](std::optional<FoundVolumeFile>& found) {
    EXPECT_NO_THROW(found->remove());
    found.reset();
  };
  std::thread other([&] { remove(first); });
  remove(second);
  other.join();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

class OpenVolumeFile : public VolumeFileTest {
 protected:
  OpenVolumeFile() { published(directory_.path()).keep(); }
  VolumeFile open(VolumeAccess access, std::int64_t bytes = kMiB) const {
    return VolumeFile::open(path(), access, bytes);
  }
};

TEST_F(OpenVolumeFile, IsThereForDirectIoAndStays) {
  {
    const VolumeFile file = open(VolumeAccess::exclusive);
    EXPECT_NE(fcntl(file.file().descriptor(), F_GETFL) & O_DIRECT, 0);
    EXPECT_EQ(file.file().directory(), directory_.path());
    EXPECT_EQ(file.file().path(), path());
  }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(OpenVolumeFile, OneGoesOnInItOrManyRead) {
  const auto refusal = [&](VolumeAccess access) {
    return test::error_text<ConfigError>([&] { open(access); });
  };
  {
    const VolumeFile first = open(VolumeAccess::shared);
    EXPECT_NO_THROW(open(VolumeAccess::shared));
    EXPECT_EQ(refusal(VolumeAccess::exclusive), "store file " + path() +
                                                    ": another process uses or reads it; wait "
                                                    "until it has ended");
  }
  const VolumeFile first = open(VolumeAccess::exclusive);
  EXPECT_EQ(refusal(VolumeAccess::shared),
            "store file " + path() + ": another process uses it; wait until it has ended");
}

TEST_F(OpenVolumeFile, AnExclusiveLockTurnsIntoASharedOne) {
  VolumeFile first = open(VolumeAccess::exclusive);
  first.share_lock();
  EXPECT_NO_THROW(open(VolumeAccess::shared));
  EXPECT_THROW(open(VolumeAccess::exclusive), ConfigError);
}

TEST_F(OpenVolumeFile, WaitsForWhoOnlyLooks) {
  std::optional<FoundVolumeFile> looking(path());
  std::thread look([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    looking.reset();
  });
  EXPECT_NO_THROW(open(VolumeAccess::exclusive));
  look.join();
}

TEST_F(OpenVolumeFile, IsRemovedWhileItIsOpen) {
  VolumeFile file = open(VolumeAccess::shared);
  file.remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
  published(directory_.path()).keep();  // another of this name is left alone
  { const VolumeFile gone = std::move(file); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(OpenVolumeFile, WhatIsNotThereIsNamed) {
  EXPECT_EQ(test::error_text<IoError>([&] { open(VolumeAccess::shared, kMiB + 1); }),
            "open " + path() + ": it has 1048576 bytes and should have 1048577; was it truncated?");
  std::filesystem::remove(path());
  EXPECT_EQ(test::error_text<IoError>([&] { open(VolumeAccess::shared); }),
            "open " + path() + ": No such file or directory (errno 2); is its drive mounted?");
}

}  // namespace
}  // namespace strata::io
