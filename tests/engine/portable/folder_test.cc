// Folders that come into being whole, beside what killed processes left of others.
#include "engine/portable/folder.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/engine/portable/portable_machine.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

namespace fs = std::filesystem;

class PortableFolderTest : public ::testing::Test {
 protected:
  const test::TemporaryFolder folder_;
  const std::string directory_ = folder_.path("checkpoints");
};

TEST_F(PortableFolderTest, WhatAKilledRunLeftIsRemoved) {
  const auto leave = [&](const std::string& name, const char* file) {
    const std::string path = directory_ + "/" + name;
    fs::create_directories(path);
    if (*file != '\0') std::ofstream(path + "/" + file) << "half";
  };
  leave(".step-00000003.strata-partial", "");                   // killed before it locked it,
  leave(".step-00000004.strata-partial", ".lock");              // while it filled it,
  leave(".step-00000005.strata-partial", "model.safetensors");  // while it deleted it
  leave(".mine.partial", "");
  PortableFolder living(directory_ + "/step-00000006");
  remove_partial_folders(directory_);
  const std::string kept = fs::path(living.temporary_path()).filename();
  EXPECT_EQ(names_in(directory_), (std::vector<std::string>{".mine.partial", kept}));
}

// Nobody finds a folder without the lock of who fills it, so none of it is ever removed.
TEST_F(PortableFolderTest, ALivingFolderIsNotRemovedWhileItIsMadeAndPublished) {
  fs::create_directories(directory_);
  std::atomic<bool> done{false};
  std::thread cleaner([&] {
    while (!done) remove_partial_folders(directory_);
  });
  for (int i = 0; i < 50; ++i) {
    PortableFolder folder(directory_ + "/model");
    std::ofstream(folder.temporary_path() + "/config.json") << i;
    folder.publish(ExistingFolder::replace);
    EXPECT_EQ(test::contents_of(directory_ + "/model/config.json"), std::to_string(i));
  }
  done = true;
  cleaner.join();
  EXPECT_EQ(names_in(directory_), std::vector<std::string>{"model"});
}

TEST_F(PortableFolderTest, ThereIsAlwaysAFolderWhileItIsReplaced) {
  const std::string path = directory_ + "/model";
  PortableFolder(path).publish(ExistingFolder::refuse);
  std::atomic<bool> done{false};
  int looks_without = 0;
  std::thread reader([&] {
    while (!done) looks_without += ::access(path.c_str(), F_OK) != 0 ? 1 : 0;
  });
  for (int i = 0; i < 50; ++i) PortableFolder(path).publish(ExistingFolder::replace);
  done = true;
  reader.join();
  EXPECT_EQ(looks_without, 0);
}

}  // namespace
}  // namespace strata::engine::testing
