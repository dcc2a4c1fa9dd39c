// Text files: appended line by line, and checked before a run for what is written at its end.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/run/text_file.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

TEST(TextFile, AppendsToWhatIsThere) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("old")) << "1\n";
  TextFile old_file(folder.path("old"));
  TextFile new_file(folder.path("new"));
  EXPECT_FALSE(old_file.created());
  EXPECT_TRUE(new_file.created());
  for (const std::string line : {"2\n", "3\n"}) {
    old_file.write(line);
    new_file.write(line);
  }
  EXPECT_EQ(contents_of(folder.path("old")), "1\n2\n3\n");
  EXPECT_EQ(contents_of(folder.path("new")), "2\n3\n");
}

TEST(TextFile, AMovedFileIsClosedOnce) {
  const TemporaryFolder folder;
  TextFile first(folder.path("file"));
  TextFile second(std::move(first));
  second.write("text");
  EXPECT_TRUE(second.created());
  EXPECT_EQ(contents_of(folder.path("file")), "text");
}

TEST(TextFile, SyncsWhatHasADriveAndIgnoresWhatHasNone) {
  const TemporaryFolder folder;
  TextFile file(folder.path("file"));
  file.write("1\n");
  EXPECT_NO_THROW(file.sync());
  EXPECT_NO_THROW(TextFile("/dev/null").sync());
}

TEST(CheckWritable, AcceptsWhatCanBeOpenedAndCreatesNothing) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("old")) << "text";
  EXPECT_NO_THROW(check_writable(folder.path("old")));
  EXPECT_NO_THROW(check_writable(folder.path("new")));
  EXPECT_EQ(contents_of(folder.path("old")), "text");
  EXPECT_FALSE(std::filesystem::exists(folder.path("new")));
}

TEST(CheckWritable, NamesWhatCannotBeOpened) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file"));
  const auto error_of = [&](const std::string& name) {
    return error_text<IoError>([&] { check_writable(folder.path(name)); });
  };
  EXPECT_PRED2(mentions, error_of("none/file"), "none/file for writing: No such file");
  EXPECT_PRED2(mentions, error_of("file/file"), "file/file for writing: Not a directory");
  EXPECT_PRED2(mentions, error_of("."), "Is a directory");
}

}  // namespace
}  // namespace strata::engine
