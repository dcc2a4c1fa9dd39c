// A folder of a test's own, removed at its end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace strata::test {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& parent = ::testing::TempDir())
      : path_((std::filesystem::path(parent) / "strata-test-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot create " << path_;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string make_folder(const std::string& name) const {
    std::filesystem::create_directory(path(name));
    return path(name);
  }

 private:
  std::string path_;
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace strata::test
