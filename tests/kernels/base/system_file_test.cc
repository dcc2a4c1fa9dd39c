// Which files are read whole, and which are as if they were absent.
#include "kernels/base/system_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace strata {
namespace {

TEST(SystemFile, RegularFilesAreReadAndNothingElse) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "a line\n";
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);  // without a writer: would wait
  EXPECT_EQ(read_system_file(folder.path("file")), "a line\n");
  EXPECT_EQ(read_system_file(folder.path("none")), std::nullopt);
  EXPECT_EQ(read_system_file(folder.path("pipe")), std::nullopt);
  EXPECT_EQ(read_system_file(folder.path()), std::nullopt);
}

TEST(SystemFile, ThoseOfLinuxHaveNoSizeAndAreReadWhole) {
  EXPECT_GT(number_of_key(read_system_file("/proc/self/status").value_or(""), "VmRSS:"), 0);
}

}  // namespace
}  // namespace strata
