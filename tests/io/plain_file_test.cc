// Files that are read whole, and replaced whole: the new content or the old, and nothing else left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/plain_file.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(ReadFile, HasEveryByte) {
  const TemporaryFolder folder;
  std::string text(100'000, 'x');  // more than one read of it
  text[50'000] = '\0';
  std::ofstream(folder.path("a"), std::ios::binary) << text;
  EXPECT_EQ(read_file(folder.path("a")), text);
}

TEST(ReadFile, AnAbsentFileIsNothingAndAnUnreadableOneAnError) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.path("none")), std::nullopt);
  std::ofstream(folder.path("file")) << "text";
  EXPECT_EQ(read_file(folder.path("file/none")), std::nullopt);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { read_file(folder.path()); }),
               "read " + folder.path() + ": Is a directory");
  std::filesystem::create_symlink("loop", folder.path("loop"));  // root may open anything else
  EXPECT_PRED2(mentions, error_text<IoError>([&] { read_file(folder.path("loop")); }),
               "open " + folder.path("loop") + ": Too many levels of symbolic links");
}

TEST(ReadFile, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { read_file(folder.path("pipe")); }),
               "read " + folder.path("pipe") + ": it is no regular file");
}

TEST(ReplaceFile, CreatesAndReplaces) {
  const TemporaryFolder folder;
  replace_file(folder.path("a.json"), "a longer text than the next");
  EXPECT_EQ(contents_of(folder.path("a.json")), "a longer text than the next");
  replace_file(folder.path("a.json"), "short");
  EXPECT_EQ(contents_of(folder.path("a.json")), "short");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(ReplaceFile, OverwritesWhatACrashLeftUnfinished) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("a.json.new")) << "half of a much longer te";
  replace_file(folder.path("a.json"), "text");
  EXPECT_EQ(contents_of(folder.path("a.json")), "text");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(ReplaceFile, ReadersOfTheOldFileKeepIt) {
  const TemporaryFolder folder;
  replace_file(folder.path("a.json"), "old");
  std::ifstream reader(folder.path("a.json"));
  replace_file(folder.path("a.json"), "new");
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
}

TEST(ReplaceFile, AFailureLeavesTheOldFileAndNamesThePath) {
  const TemporaryFolder folder;
  EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path("no/a"), "text"); }),
               "create " + folder.path("no/a") + ": No such file");
  folder.make_folder("a.new");
  EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path("a"), "text"); }),
               "remove " + folder.path("a.new") + ": Is a directory");
}

TEST(ReplaceFile, FollowsALinkToItsFile) {
  const TemporaryFolder folder;
  folder.make_folder("elsewhere");
  std::ofstream(folder.path("elsewhere/file")) << "old";
  std::filesystem::create_symlink("elsewhere/file", folder.path("link"));
  replace_file(folder.path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(contents_of(folder.path("elsewhere/file")), "new");
  std::filesystem::remove(folder.path("elsewhere/file"));
  EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path("link"), "text"); }),
               "follow the link " + folder.path("link") + ": No such file");
}

TEST(ReplaceFile, WhatIsNoRegularFileStays) {
  const TemporaryFolder folder;
  folder.make_folder("folder");
  EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path("folder"), "text"); }),
               "replace " + folder.path("folder") + ": Is a directory");
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder.path("link"));
  for (const char* const name : {"pipe", "link"}) {
    EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path(name), "text"); }),
                 "replace " + folder.path(name) + ": it is no regular file");
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path("pipe")));
  EXPECT_EQ(files_in(folder), 3);
}

TEST(ReplaceFile, APipeUnderTheUnfinishedNameIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("a.new").c_str(), 0600), 0);
  replace_file(folder.path("a"), "text");
  EXPECT_EQ(contents_of(folder.path("a")), "text");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(WriteFully, NamesTheFileThatIsFull) {
  const int descriptor = ::open("/dev/full", O_WRONLY);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { write_fully(descriptor, "text", "NAME"); }),
               "write 4 bytes to NAME: No space left on device");
  ::close(descriptor);
}

}  // namespace
}  // namespace strata::io
