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
               "create " + folder.path("no/a.new") + ": No such file");
  folder.make_folder("taken");
  folder.make_folder("taken/inside");
  EXPECT_PRED2(mentions, error_text<IoError>([&] { replace_file(folder.path("taken"), "text"); }),
               "replace " + folder.path("taken"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("taken.new")));
}

TEST(WriteFully, NamesTheFileThatIsFull) {
  const int descriptor = ::open("/dev/full", O_WRONLY);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { write_fully(descriptor, "text", "NAME"); }),
               "write 4 bytes to NAME: No space left on device");
  ::close(descriptor);
}

}  // namespace
}  // namespace strata::io
