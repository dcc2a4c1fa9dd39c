#include "engine/tools/gc_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/store_pointer.h"
#include "kernels/base/error.h"
#include "tests/offload/store/filled_store.h"
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
  EXPECT_TRUE(mentions(text, "1 damaged or without its run, which --force removes")) << text;
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

// A run folder, and in two directories the store of one of its ranks, with commits of steps 10 and
// 20 unless told otherwise.
class GcOfRunsTest : public ::testing::Test {
 protected:
  void leave(const std::vector<std::int64_t>& steps) {
    const auto manifest = store::testing::two_slot_manifest();
    const auto volume = make_store({first_.path(), second_.path()}, identity_, manifest);
    store::testing::commit_steps(*volume, manifest, steps);
    volume->keep();
  }
  void point_to(const std::string& run_id) {
    replace_store_pointer(run_.path(), {run_id, {{"host", {first_.path(), second_.path()}}}});
  }
  bool is_kept(const TemporaryFolder& folder) const {
    return std::filesystem::exists(folder.path(store_file_name(identity_)));
  }

  const TemporaryFolder run_, first_, second_;
  const StoreIdentity identity_{new_run_id(), 0, 1, run_.path()};
  Options options_ = [this] {
    Options options;
    options.arguments = {first_.path(), second_.path()};
    return options;
  }();
};

TEST_F(GcOfRunsTest, KeepsWhatARunCanGoOnFrom) {
  leave({10, 20});
  point_to(identity_.run_id);
  for (options_.force = false;; options_.force = true) {
    const std::string text = output_of(options_);
    EXPECT_TRUE(is_kept(first_) && is_kept(second_));
    EXPECT_TRUE(mentions(text, ": kept for resuming, ")) << text;
    EXPECT_TRUE(mentions(text, "holds step 20 of run " + run_.path() +
                                   "; to free it, remove that folder, then gc with --force"))
        << text;
    if (options_.force) break;
  }
  EXPECT_EQ(left_over(first_.path()).bytes + left_over(second_.path()).bytes, 0);
}

TEST_F(GcOfRunsTest, APartIsKeptWithTheFirst) {
  leave({10});
  point_to(identity_.run_id);
  options_.arguments = {second_.path()};
  EXPECT_TRUE(mentions(output_of(options_), "holds step 10 of run "));
  std::filesystem::remove(first_.path(store_file_name(identity_)));
  EXPECT_TRUE(mentions(output_of(options_), "may hold a state of run "));
  EXPECT_TRUE(is_kept(second_));
}

// The run may have moved to that, or have been moved before another began in its folder.
TEST_F(GcOfRunsTest, AStateWhoseRunHasAnotherStoreNeedsForce) {
  leave({10});
  point_to(new_run_id());
  const std::string text = output_of(options_);
  EXPECT_TRUE(mentions(text, "holds step 10 of run " + run_.path() + "; run " + run_.path() +
                                 " has another store now"))
      << text;
  EXPECT_TRUE(is_kept(first_) && is_kept(second_));
  // The superblocks of a part alone are found with the first.
  options_.arguments = {second_.path()};
  output_of(options_);
  EXPECT_TRUE(is_kept(second_));
  options_.arguments = {first_.path(), second_.path()};
  options_.force = true;
  output_of(options_);
  EXPECT_FALSE(is_kept(first_) || is_kept(second_));
}

TEST_F(GcOfRunsTest, RemovesTheEmptyStoreThatAnotherReplaced) {
  leave({});
  point_to(new_run_id());
  EXPECT_TRUE(mentions(output_of(options_), "has another store now"));
  EXPECT_FALSE(is_kept(first_) || is_kept(second_));
}

TEST_F(GcOfRunsTest, RemovesWhatNothingWasCommittedTo) {
  leave({});
  point_to(identity_.run_id);
  output_of(options_);
  EXPECT_FALSE(is_kept(first_) || is_kept(second_));
}

TEST_F(GcOfRunsTest, AStateWhoseRunIsGoneNeedsForce) {
  leave({10});
  const std::string text = output_of(options_);
  EXPECT_TRUE(is_kept(first_) && is_kept(second_));
  EXPECT_TRUE(mentions(text, "2 damaged or without its run, which --force removes")) << text;
  EXPECT_EQ(left_over(first_.path()).forced, 1);
  options_.force = true;
  output_of(options_);
  EXPECT_FALSE(is_kept(first_) || is_kept(second_));
}

TEST_F(GcOfRunsTest, KeepsAStateWhoseRunCannotBeLookedAt) {
  leave({10});
  std::ofstream(run_.path(kStorePointerFile)) << "{";
  options_.force = true;
  EXPECT_TRUE(mentions(output_of(options_), "cannot be looked at: " + run_.path()));
  EXPECT_TRUE(is_kept(first_) && is_kept(second_));
}

// As another gc does at the same time.
TEST_F(GcOfRunsTest, WhatOthersLookAtIsStaleAndStays) {
  leave({});
  const auto others = store::find_stores(first_.path());
  EXPECT_EQ(others.at(0).state, store::StoreState::idle);
  EXPECT_EQ(left_over(first_.path()).stale, 1);
  ::testing::internal::CaptureStdout();
  const auto text = test::error_text<IoError>([&] { run_gc(options_); });
  EXPECT_TRUE(mentions(::testing::internal::GetCapturedStdout(), ": stale, "));
  EXPECT_TRUE(mentions(text, first_.path())) << text;
  EXPECT_TRUE(is_kept(first_));
  EXPECT_FALSE(is_kept(second_));
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
