#include "engine/tools/verify_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "tests/engine/tools/stored_runs.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using offload::StateKind;
using test::mentions;
using testing::StoredRun;

struct Outcome {
  int exit_code = 0;
  std::string text;
};

Outcome verify(const std::vector<std::string>& folders, bool json = false) {
  Options options;
  options.arguments = folders;
  options.json = json;
  Outcome outcome;
  ::testing::internal::CaptureStdout();
  outcome.exit_code = run_verify(options);
  outcome.text = ::testing::internal::GetCapturedStdout();
  return outcome;
}

std::int64_t committed_bytes(const store::Manifest& manifest) {
  std::int64_t bytes = 0;
  store::testing::for_each_block(
      manifest, [&](int, StateKind, std::int64_t, std::int64_t block) { bytes += block; });
  return bytes;
}

TEST(Verify, AnIntactRunAndTheCommitBefore) {
  const StoredRun run({10, 20});
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(mentions(
      outcome.text,
      "run " + run.folder.path() + ": step 20: intact; the checkpoint of step 10 is intact too"))
      << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, " GB/s: intact\n")) << outcome.text;
}

TEST(Verify, NamesEveryDamagedRangeAndGoesOn) {
  const StoredRun run({10, 20});
  run.damage(0, 0, 0, StateKind::moment1, 2);
  run.damage(0, 0, 0, StateKind::moment1, 3);
  run.damage(1, 0, 4, StateKind::weights, 0);
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  // Neighbours are one range.
  EXPECT_TRUE(mentions(outcome.text,
                       "damaged: rank 0: moment1 of wte.weight [8192, 10000), wte.weight [10000, "
                       "16336), 2 blocks at "))
      << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, run.first.path())) << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, ".store at offset ")) << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, "damaged: rank 1: weights of ")) << outcome.text;
  EXPECT_TRUE(
      mentions(outcome.text,
               "step 20: DAMAGED in 2 places; the checkpoint of step 10 is intact: resume with "
               "--resume-step 10"))
      << outcome.text;
}

// A run that went on has overwritten parts of it.
TEST(Verify, TheCommitBeforeNeedNotBeIntact) {
  const StoredRun run({10, 20});
  run.damage(1, 1, 2, StateKind::moment2, 0);
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(mentions(outcome.text, ": step 20: intact\n")) << outcome.text;
}

TEST(Verify, TheSameAsJson) {
  const StoredRun run({10, 20});
  run.damage(0, 0, 1, StateKind::remainder, 1);
  const Outcome outcome = verify({run.folder.path()}, true);
  const auto json = nlohmann::json::parse(outcome.text);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(json.at("damaged"), 1);
  const auto& verified = json.at("verified").at(0);
  EXPECT_EQ(verified.at("step"), 20);
  EXPECT_EQ(verified.at("other_intact_step"), 10);
  EXPECT_EQ(verified.at("damage").size(), 1u);
  // Both commits of both ranks.
  EXPECT_EQ(json.at("bytes"), 4 * committed_bytes(run.manifest));
}

TEST(Verify, MissingRanksOfARunAreDamageAndTheOthersAreRead) {
  const StoredRun run({10, 20});
  std::filesystem::remove(run.file(1, run.first));
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(mentions(outcome.text, "damaged: rank 1: not here; it was last in ")) << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, "step 20: DAMAGED in 1 place")) << outcome.text;
}

// As on one machine of several, each with its own drives.
TEST(Verify, DirectoriesAreVerifiedForWhatLiesThere) {
  const StoredRun run({10, 20});
  for (const auto* directory : {&run.first, &run.second}) {
    std::filesystem::remove(run.file(1, *directory));
  }
  const Outcome outcome = verify(run.directories());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(mentions(outcome.text, "store " + run.run_id + ": step 20: intact; rank 1: not here"))
      << outcome.text;
}

TEST(Verify, FilesOfARunThatWereMovedAreFoundWhereTheyAreSaidToBe) {
  const StoredRun run({10, 20});
  const test::TemporaryFolder moved;
  for (const int rank : {0, 1}) {
    for (const auto* directory : {&run.first, &run.second}) {
      const std::string file = run.file(rank, *directory);
      const std::string drive = moved.path(directory == &run.first ? "first" : "second");
      std::filesystem::create_directories(drive);
      std::filesystem::rename(file, drive + "/" + std::filesystem::path(file).filename().string());
    }
  }
  Options options;
  options.arguments = {run.folder.path()};
  const auto text = test::error_text<ConfigError>([&] { run_verify(options); });
  EXPECT_TRUE(mentions(text, "not here; it was last in " + run.first.path())) << text;
  EXPECT_TRUE(mentions(text, "give the directories where its files are after the run")) << text;
  const Outcome outcome = verify({run.folder.path(), moved.path("first"), moved.path("second")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_TRUE(mentions(outcome.text, "run " + run.folder.path() + ": step 20: intact"))
      << outcome.text;
  EXPECT_FALSE(mentions(outcome.text, "store " + run.run_id)) << outcome.text;
}

TEST(Verify, FoldersWithoutAStoreAreNotIntact) {
  const test::TemporaryFolder folder;
  Options options;
  options.arguments = {folder.path()};
  EXPECT_TRUE(mentions(test::error_text<ConfigError>([&] { run_verify(options); }),
                       "there is no store in " + folder.path()));
  std::ofstream(folder.path("options.json")) << "{}";
  EXPECT_TRUE(mentions(test::error_text<ConfigError>([&] { run_verify(options); }),
                       "run " + folder.path() + " has no store"));
}

// A run without checkpoints that was killed.
TEST(Verify, ARunStoppedInMidStepHoldsNoStateAndIsNotDamaged) {
  const test::TemporaryFolder folder;
  const store::Manifest manifest = store::testing::small_manifest();
  const store::StoreIdentity identity{store::new_run_id(), 0, 1, folder.path()};
  {
    const auto volume = store::testing::make_store({folder.path()}, identity, manifest);
    volume->keep();
    store::testing::NewLog log(*volume, manifest);
    log.log.write(store::SuperblockKind::started, 7, {}, nullptr);
  }
  replace_store_pointer(folder.path(), {identity.run_id, {{"here", {folder.path()}}}});
  const Outcome outcome = verify({folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(mentions(outcome.text, "run " + folder.path() +
                                         ": it holds no state to go on from: the run was stopped "
                                         "in the middle of a step"))
      << outcome.text;
  EXPECT_FALSE(mentions(outcome.text, "DAMAGED")) << outcome.text;
  EXPECT_FALSE(mentions(outcome.text, "intact")) << outcome.text;
}

TEST(Verify, ALivingRunIsRefused) {
  const StoredRun run({10});
  const store::StoredShard living = run.open(1, io::VolumeAccess::exclusive);
  Options options;
  options.arguments = {run.folder.path()};
  const auto text = test::error_text<ConfigError>([&] { run_verify(options); });
  EXPECT_TRUE(mentions(text, run.file(1, run.first))) << text;
}

TEST(Verify, DamagedMetadataIsDamage) {
  const StoredRun run({10, 20});
  std::fstream(run.file(1, run.first), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(100)
      .put('x');
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(mentions(outcome.text, run.file(1, run.first) + ": the header is damaged"))
      << outcome.text;
}

TEST(Verify, WhatWasNeverCommittedIsNoDamage) {
  const StoredRun run({});
  const Outcome outcome = verify({run.folder.path()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(mentions(outcome.text, "nothing to verify; there is no checkpoint yet"))
      << outcome.text;
}

}  // namespace
}  // namespace strata::engine
