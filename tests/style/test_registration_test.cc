// Every file tests/**/*_test.cc is a ctest entry and mirrors a source folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/style/source_tree.h"

namespace strata::style {
namespace {

// "io.ring_test" for tests/io/ring_test.cc.
std::set<std::string> tests_in_the_tree() {
  std::set<std::string> names;
  for (const SourceFile& file : source_files({"tests"})) {
    if (!file.path.ends_with("_test.cc")) continue;
    std::string name = file.path.substr(std::string("tests/").size());
    name.resize(name.size() - std::string(".cc").size());
    std::replace(name.begin(), name.end(), '/', '.');
    names.insert(name);
  }
  return names;
}

// What CMake wrote for ctest, which runs tests in the folder of that file.
std::set<std::string> registered_tests() {
  std::set<std::string> names;
  std::ifstream file("CTestTestfile.cmake");
  EXPECT_TRUE(file) << "no CTestTestfile.cmake here: run this test through ctest";
  const std::regex add_test(R"(^add_test\(\[?=*\[?"?([A-Za-z0-9_.]+))");
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, match, add_test)) names.insert(match[1]);
  }
  return names;
}

TEST(TestRegistration, EveryTestFileIsRegistered) {
  const std::set<std::string> registered = registered_tests();
  for (const std::string& name : tests_in_the_tree()) {
    EXPECT_TRUE(registered.contains(name)) << name << " is not known to ctest: configure again";
  }
}

TEST(TestRegistration, EveryMirroredFolderExists) {
  const std::set<std::string> not_mirrors = {"style", "cuda_sim"};
  for (const SourceFile& file : source_files({"tests"})) {
    if (!file.path.ends_with("_test.cc")) continue;
    const auto mirrored =
        std::filesystem::relative(std::filesystem::path(file.path).parent_path(), "tests");
    EXPECT_TRUE(not_mirrors.contains(mirrored) ||
                std::filesystem::is_directory(source_root() / mirrored))
        << file.path << " mirrors no source folder";
  }
}

}  // namespace
}  // namespace strata::style
