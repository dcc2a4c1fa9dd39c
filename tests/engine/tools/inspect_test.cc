#include "engine/tools/inspect_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/tools/store_look.h"
#include "kernels/base/error.h"
#include "tests/engine/tools/stored_runs.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::TemporaryFolder;
using testing::StoredRun;

std::string output_of(const std::vector<std::string>& folders, bool json = false) {
  Options options;
  options.arguments = folders;
  options.json = json;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_inspect(options), 0);
  return ::testing::internal::GetCapturedStdout();
}

nlohmann::json json_of(const std::vector<std::string>& folders) {
  return nlohmann::json::parse(output_of(folders, true));
}

TEST(Inspect, ShowsARunAndBothCopiesOfItsRanks) {
  const StoredRun run({10, 20, 30});
  std::ofstream(run.folder.path("log.jsonl")) << "{\"step\":31}\n{\"step\":32}\n{\"st";
  const std::string text = output_of({run.folder.path()});
  for (const std::string& part :
       {"run " + run.folder.path() + ": checkpoint of step 30; logged up to step 32",
        "store " + run.run_id + " of 2 ranks", std::string("rank 0 of 2, begun 0 minutes ago on "),
        std::string("rank 1 of 2, "), run.file(0, run.first), run.file(1, run.second),
        std::string("copy 1: commit of step 30, sequence number 3; live slots: A of 5 units, B of "
                    "0 units"),
        std::string("copy 0: commit of step 20, sequence number 2; live slots: A of 0 units, B of "
                    "5 units")}) {
    EXPECT_TRUE(mentions(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(mentions(text, "living")) << text;
}

TEST(Inspect, TheSameAsJson) {
  const StoredRun run({10, 20});
  const nlohmann::json json = json_of({run.folder.path()});
  const nlohmann::json& stored = json.at("stores").at(0);
  EXPECT_EQ(stored.at("step"), 20);
  EXPECT_EQ(stored.at("run_id"), run.run_id);
  EXPECT_EQ(stored.at("in_use"), false);
  EXPECT_EQ(stored.at("logged_step"), nullptr);
  ASSERT_EQ(stored.at("ranks").size(), 2u);
  for (const nlohmann::json& rank : stored.at("ranks")) {
    EXPECT_EQ(rank.at("files").size(), 2u);
    EXPECT_EQ(rank.at("slots"), 2);
    EXPECT_GE(rank.at("disk_bytes").get<std::int64_t>(), run.manifest.data_bytes);
    ASSERT_EQ(rank.at("superblocks").size(), 2u);
    EXPECT_EQ(rank.at("superblocks")[0].at("step"), 20);
    EXPECT_EQ(rank.at("superblocks")[0].at("units_in_slot"), nlohmann::json({0, 5}));
  }
}

TEST(Inspect, LooksAtALivingRunAndDisturbsNothing) {
  const StoredRun run({10});
  const store::StoredShard living = run.open(1, io::VolumeAccess::exclusive);
  const std::string text = output_of({run.folder.path()});
  EXPECT_TRUE(mentions(text, "checkpoint of step 10; a living run has it locked")) << text;
}

// The newest step is that which all ranks have.
TEST(Inspect, ARankThatIsBehindDecides) {
  const StoredRun run({10, 20});
  {
    const store::StoredShard behind = run.open(1, io::VolumeAccess::exclusive);
    store::testing::commit_steps(behind.volume(), run.manifest, {10});
    store::testing::NewLog log(behind.volume(), run.manifest);
    const auto found = log.log.read();
    log.log.continue_after(&found.valid.back().superblock);
  }
  EXPECT_EQ(json_of({run.folder.path()}).at("stores").at(0).at("step"), 10);
}

TEST(Inspect, SaysWhatIsWrongWithACopy) {
  const StoredRun run({10, 20});
  std::fstream(run.file(0, run.first), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(store::kHeaderBytes + 100)
      .put('x');
  const std::string text = output_of({run.folder.path()});
  EXPECT_TRUE(mentions(text, "copy 0: the superblock is damaged")) << text;
  EXPECT_TRUE(mentions(text, ": damaged: ")) << text;
}

TEST(Inspect, NamesRanksThatAreNotHere) {
  const StoredRun run({10});
  std::filesystem::remove(run.file(1, run.second));
  const std::string text = output_of({run.folder.path()});
  EXPECT_TRUE(mentions(text, "rank 1: not here; it was last in " + run.first.path() + ", " +
                                 run.second.path() + " on somewhere"))
      << text;
  EXPECT_TRUE(mentions(text, "not all of it can be looked at from here")) << text;
}

TEST(Inspect, FindsFilesOfARunThatWereMoved) {
  const StoredRun run({10});
  const test::TemporaryFolder moved;
  const std::string file = run.file(1, run.second);
  std::filesystem::rename(file, moved.path(std::filesystem::path(file).filename()));
  const auto json = json_of({run.folder.path(), moved.path()});
  ASSERT_EQ(json.at("stores").size(), 1u);
  EXPECT_EQ(json.at("stores")[0].at("step"), 10);
}

TEST(Inspect, FindsTheStoresOfDirectories) {
  const StoredRun run({10, 20});
  const auto json = json_of(run.directories());
  ASSERT_EQ(json.at("stores").size(), 1u);
  EXPECT_EQ(json.at("stores")[0].at("run_folder"), "");
  EXPECT_EQ(json.at("stores")[0].at("step"), 20);
  // One directory has parts only.
  EXPECT_TRUE(mentions(output_of({run.second.path()}), "that of directory 0 is missing"));
  EXPECT_EQ(output_of({run.folder.make_folder("empty")}), "no stores\n");
}

TEST(Inspect, RunsThatHaveNothingYet) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("options.json")) << "{}";
  EXPECT_EQ(output_of({folder.path()}), "run " + folder.path() + ": it has no store\n");
  const StoredRun run({});
  EXPECT_TRUE(mentions(output_of({run.folder.path()}), ": no checkpoint yet"));
}

// A run without checkpoints: at its stop, and killed after it had gone on.
TEST(Inspect, MarksOfARunWithoutCheckpoints) {
  const TemporaryFolder folder;
  const store::Manifest manifest = store::testing::small_manifest();
  const store::StoreIdentity identity{store::new_run_id(), 0, 1, folder.path()};
  const auto volume = store::testing::make_store({folder.path()}, identity, manifest);
  volume->keep();
  replace_store_pointer(folder.path(), {identity.run_id, {{"here", {folder.path()}}}});
  store::testing::NewLog log(*volume, manifest);
  const store::CommitTable table = store::testing::fill_slots(
      *volume, manifest, std::vector<std::uint8_t>(manifest.units.size()), 1);
  log.log.write(store::SuperblockKind::clean_mark, 7, {}, &table);
  EXPECT_TRUE(mentions(output_of({folder.path()}), ": clean at step 7, without checkpoints"));
  log.log.write(store::SuperblockKind::started, 7, {}, nullptr);
  const std::string text = output_of({folder.path()});
  EXPECT_TRUE(mentions(text, "in the middle of a step, some time after step 7")) << text;
  EXPECT_TRUE(mentions(text, "copy 0: started mark of step 7, sequence number 2\n")) << text;
}

TEST(Inspect, DamagedFilesAndMissingFoldersAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.path("strata-0123456789abcdef0123456789abcdef-rank0.store");
  std::ofstream(path) << "torn";
  EXPECT_TRUE(mentions(output_of({folder.path()}), "store file " + path + ": 4 bytes are too few"));
  Options options;
  options.arguments = {"/no/such/place"};
  EXPECT_TRUE(mentions(test::error_text<ConfigError>([&] { run_inspect(options); }),
                       "/no/such/place: no such directory"));
  EXPECT_TRUE(mentions(test::error_text<ConfigError>([] { check_inspect_options(Options()); }),
                       "name a run's folder"));
}

TEST(LastLoggedStep, IsThatOfTheLastWholeLine) {
  const TemporaryFolder folder;
  EXPECT_FALSE(last_logged_step(folder.path()));
  std::ofstream(folder.path("log.jsonl")) << "{\"step\":0}\n";
  EXPECT_EQ(last_logged_step(folder.path()), 0);
  // Longer than what is read of its end.
  std::ofstream log(folder.path("log.jsonl"));
  for (int step = 0; step < 5000; ++step) {
    log << "{\"step\":" << step << ",\"loss\":" << 1.0 / (step + 1) << "}\n";
  }
  log << "{\"step\":5000,\"lo" << std::flush;
  EXPECT_EQ(last_logged_step(folder.path()), 4999);
}

}  // namespace
}  // namespace strata::engine
