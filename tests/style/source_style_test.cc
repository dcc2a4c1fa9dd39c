// The limits of style that a machine can check (CONTRIBUTING.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/style/source_tree.h"

namespace strata::style {
namespace {

constexpr std::size_t kLinesMax = 400;
constexpr std::ptrdiff_t kColumnsMax = 100;

std::vector<SourceFile> all_files() {
  return source_files(
      {"engine", "models", "offload", "optim_cpu", "optim_cuda", "kernels", "io", "tests"});
}

// Characters of UTF-8 text: bytes that do not continue one.
std::ptrdiff_t columns_of(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](unsigned char c) { return (c & 0xC0u) != 0x80u; });
}

TEST(SourceStyle, FilesAreShort) {
  for (const SourceFile& file : all_files()) {
    EXPECT_LE(file.lines.size(), kLinesMax) << file.path << ": one concept per file";
  }
}

TEST(SourceStyle, LinesAreShort) {
  for (const SourceFile& file : all_files()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(columns_of(file.lines[i]), kColumnsMax) << file.path << ":" << i + 1;
    }
  }
}

TEST(SourceStyle, NamesOfFilesAndFoldersAreSnakeCase) {
  const std::regex snake_case("([a-z0-9_]+/)+[a-z0-9_]+\\.(h|cc|cu)");
  for (const SourceFile& file : all_files()) {
    EXPECT_TRUE(std::regex_match(file.path, snake_case)) << file.path;
  }
}

TEST(SourceStyle, HeadersSayWhatTheyAreForAndAreIncludedOnce) {
  for (const SourceFile& file : all_files()) {
    if (!file.is_header()) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines.front().starts_with("// ")) << file.path << ": no opening comment";
    const auto once = std::count(file.lines.begin(), file.lines.end(), "#pragma once");
    EXPECT_EQ(once, 1) << file.path;
  }
}

TEST(SourceStyle, NothingIsLeftUndoneOrOpenedWide) {
  const std::regex unwanted("using namespace std;|\\t|\\b(TODO|FIXME|XXX|HACK)\\b");
  for (const SourceFile& file : all_files()) {
    if (file.path == "tests/style/source_style_test.cc") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], unwanted))
          << file.path << ":" << i + 1 << ": " << file.lines[i];
    }
  }
}

}  // namespace
}  // namespace strata::style
