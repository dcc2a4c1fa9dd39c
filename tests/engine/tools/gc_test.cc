#include "engine/tools/gc_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "tests/offload/store/made_store.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using store::new_run_id;
using store::store_file_name;
using store::StoreIdentity;
using store::testing::leave_store;
using store::testing::make_store;
using test::mentions;
using test::TemporaryFolder;

std::string output_of(const Options& options) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_gc(options), 0);
  return ::testing::internal::GetCapturedStdout();
}

// A directory with a store in use, a stale one and a damaged one.
struct Directory {
  Directory() {
    options.arguments = {folder.path()};
    std::fstream file(path(damaged), std::ios::in | std::ios::out | std::ios::binary);
    file.put('x');
  }
  std::string path(const std::string& name) const { return folder.path(name); }
  bool has(const std::string& name) const { return std::filesystem::exists(path(name)); }

  TemporaryFolder folder;
  StoreIdentity living_identity{new_run_id(), 0, 1, ""};
  std::unique_ptr<io::Volume> volume = make_store({folder.path()}, living_identity);
  std::string living = store_file_name(living_identity);
  std::string stale = leave_store({folder.path()}, {new_run_id(), 1, 2, "/runs/gone"});
  std::string damaged = leave_store({folder.path()}, {new_run_id(), 0, 1, ""});
  Options options;
};

TEST(Gc, RemovesWhatIsStaleAndNothingElse) {
  const Directory directory;
  std::ofstream(directory.path("notes.txt")) << "mine";
  const std::string text = output_of(directory.options);
  EXPECT_TRUE(directory.has(directory.living));
  EXPECT_FALSE(directory.has(directory.stale));
  EXPECT_TRUE(directory.has(directory.damaged));
  EXPECT_TRUE(directory.has("notes.txt"));
  EXPECT_TRUE(mentions(text, directory.path(directory.stale) + ": stale")) << text;
  EXPECT_TRUE(mentions(text, "run /runs/gone, rank 1 of 2, begun 0 minutes ago on ")) << text;
  EXPECT_TRUE(mentions(text, directory.path(directory.living) + ": in use")) << text;
  EXPECT_TRUE(mentions(text, "1 damaged, which --force removes")) << text;
}

TEST(Gc, DryRunRemovesNothing) {
  Directory directory;
  directory.options.dry_run = true;
  const std::string text = output_of(directory.options);
  EXPECT_TRUE(directory.has(directory.stale));
  EXPECT_TRUE(mentions(text, "would be removed")) << text;
  EXPECT_TRUE(mentions(text, "would be freed")) << text;
}

TEST(Gc, ForceRemovesDamagedStoresButNeverLivingOnes) {
  Directory directory;
  directory.options.force = true;
  output_of(directory.options);
  EXPECT_FALSE(directory.has(directory.stale));
  EXPECT_FALSE(directory.has(directory.damaged));
  EXPECT_TRUE(directory.has(directory.living));
}

TEST(Gc, TheSameAsJson) {
  Directory directory;
  directory.options.json = true;
  const auto json = nlohmann::json::parse(output_of(directory.options));
  ASSERT_EQ(json.at("stores").size(), 3u);
  std::int64_t freed = 0;
  for (const auto& found : json.at("stores")) {
    if (found.at("path") == directory.path(directory.stale)) {
      EXPECT_EQ(found.at("state"), "stale");
      EXPECT_EQ(found.at("fate"), "removed");
      EXPECT_EQ(found.at("run_folder"), "/runs/gone");
      freed = found.at("bytes");
    } else {
      EXPECT_EQ(found.at("fate"), "kept");
    }
  }
  // At least the data that was reserved.
  EXPECT_GE(freed, store::testing::small_manifest().data_bytes);
  EXPECT_EQ(json.at("freed_bytes"), freed);
}

TEST(Gc, EndsWithAnErrorWithoutDirectories) {
  EXPECT_TRUE(mentions(test::error_text<ConfigError>([] { check_gc_options(Options()); }),
                       "name the directories"));
  Options options;
  options.arguments = {"/no/such/place"};
  EXPECT_TRUE(mentions(test::error_text<IoError>([&] { run_gc(options); }), "/no/such/place"));
}

}  // namespace
}  // namespace strata::engine
