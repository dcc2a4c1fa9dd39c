// --nvme as text, and what its directories are asked.
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/io/loop_mount.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

std::string parse_refusal(const std::string& text) {
  try {
    parse_directories(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string check_refusal(const std::vector<VolumeDirectory>& directories, std::int64_t bytes) {
  try {
    check_directories(directories, bytes);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::int64_t free_bytes(const std::string& directory) {
  struct statvfs status;
  EXPECT_EQ(statvfs(directory.c_str(), &status), 0);
  return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
}

TEST(ParseDirectories, TakesBandwidthsWhereGiven) {
  const std::vector<VolumeDirectory> directories =
      parse_directories("/no/a=7GB/s,/no/b=1.5GB/s,/no/c,/no/d=e=100MiB/s");
  ASSERT_EQ(directories.size(), 4u);
  EXPECT_EQ(directories[0].path, "/no/a");
  EXPECT_EQ(directories[0].bytes_per_second, 7e9);
  EXPECT_EQ(directories[1].bytes_per_second, 1.5e9);
  EXPECT_EQ(directories[2].path, "/no/c");
  EXPECT_EQ(directories[2].bytes_per_second, 0);
  EXPECT_EQ(directories[3].path, "/no/d=e");
  EXPECT_EQ(directories[3].bytes_per_second, 104857600);
}

TEST(ParseDirectories, RefusesMoreThanAStoreCanDescribe) {
  std::string text = "/no/0";
  for (int d = 1; d < kVolumeDirectoriesMax; ++d) text += "," + ("/no/" + std::to_string(d));
  EXPECT_EQ(parse_refusal(text), "");
  EXPECT_EQ(parse_refusal(text + ",/no/more"), "129 directories: at most 128 can hold a volume");
}

TEST(ParseDirectories, WhatIsFormattedParsesToTheSame) {
  const std::string text = "/no/a=7GB/s,/no/b=1500MB/s,/no/c,/no/d=1234567/s,/no/e=9KB/s";
  EXPECT_EQ(format_directories(parse_directories(text)), text);
}

TEST(ParseDirectories, NamesThePartItDoesNotUnderstand) {
  for (const std::string part :
       {"/b=7GB", "/b=fast", "/b=0/s", "/b=-1GB/s", "/b=", "=7GB/s", "/b=2000TB/s"}) {
    EXPECT_EQ(parse_refusal("/no/a," + part),
              "'" + part +
                  "' is not understood: give DIRECTORY=BANDWIDTH with a bandwidth such as 7GB/s");
  }
  for (const std::string text : {"", ",/a", "/a,", "/a,,/b"}) {
    EXPECT_TRUE(says(parse_refusal(text), "'" + text + "' has an empty part")) << text;
  }
}

TEST(ParseDirectories, RefusesADirectoryThatComesTwiceUnderAnyName) {
  const test::TemporaryFolder root;
  const std::string a = root.make_folder("a");
  const std::string b = root.make_folder("b");
  std::filesystem::create_directory_symlink(a, root.path("link"));
  for (const std::string& other :
       {a, a + "/", b + "/../a", root.path("link"), std::filesystem::relative(a).string()}) {
    EXPECT_EQ(parse_refusal(a + "," + b + "," + other + "=1GB/s"),
              "'" + a + "' and '" + other + "' are the same directory; give it once");
  }
  const std::string missing = root.path("missing");
  EXPECT_TRUE(says(parse_refusal(missing + "," + b + "/../missing/"), "are the same directory"));
  EXPECT_EQ(parse_refusal(a + "," + b + "," + missing), "");
}

TEST(CheckDirectories, LeavesNothingBehind) {
  const test::TemporaryFolder root;
  check_directories({{root.path(), 0}}, kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

TEST(CheckDirectories, RefusesOneThatIsMissingOrNoDirectory) {
  const test::TemporaryFolder root;
  const std::string missing = root.path("missing");
  EXPECT_TRUE(says(check_refusal({{root.path(), 0}, {missing, 0}}, 0),
                   "storage directory " + missing + ": there is no such directory; create it"));
  const std::string file = root.path("file");
  std::ofstream(file) << "x";
  EXPECT_TRUE(says(check_refusal({{file, 0}}, 0), file + ": this is not a directory"));
}

TEST(CheckDirectories, SaysBytesNeededAndFree) {
  const test::TemporaryFolder root;
  const std::string refusal = check_refusal({{root.path(), 0}}, std::int64_t{1} << 60);
  EXPECT_TRUE(says(refusal, "storage directory " + root.path() +
                                ": 1 EiB (1152921504606846976 bytes) are needed and "))
      << refusal;
  EXPECT_TRUE(says(refusal, "are free; free some space")) << refusal;
}

TEST(CheckDirectories, CountsAFileSystemOnce) {
  const LoopMount mount(16 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  const std::string a = mount.directory() + "/a";
  const std::string b = mount.directory() + "/b";
  std::filesystem::create_directory(a);
  std::filesystem::create_directory(b);
  const std::int64_t free = free_bytes(a);
  const std::vector<VolumeDirectory> directories = {{a, 0}, {b, 0}};
  EXPECT_EQ(check_directories(directories, free), (std::vector<std::int64_t>{free, free}));
  const std::string refusal = check_refusal(directories, free + 1);
  EXPECT_TRUE(says(refusal, fmt::format("({} bytes) are needed and {} ({} bytes) are free together",
                                        free + 1, format_bytes(free), free)))
      << refusal;
  EXPECT_TRUE(says(refusal, b + " is on the same file system as " + a)) << refusal;
}

TEST(CheckDirectories, AddsWhatFileSystemsHaveFree) {
  const LoopMount first(16 * kMiB);
  const LoopMount second(32 * kMiB);
  if (!first.mounted() || !second.mounted()) GTEST_SKIP() << "no right to mount";
  const std::int64_t free_first = free_bytes(first.directory());
  const std::int64_t free_second = free_bytes(second.directory());
  const std::vector<VolumeDirectory> directories = {{first.directory(), 0},
                                                    {second.directory(), 0}};
  EXPECT_EQ(check_refusal(directories, free_first + free_second), "");
  const std::string refusal = check_refusal(directories, free_first + free_second + 1);
  EXPECT_TRUE(says(refusal, fmt::format("({} bytes) in {}", free_first, first.directory())))
      << refusal;
  EXPECT_TRUE(says(refusal, fmt::format("({} bytes) in {}", free_second, second.directory())))
      << refusal;
}

}  // namespace
}  // namespace strata::io
