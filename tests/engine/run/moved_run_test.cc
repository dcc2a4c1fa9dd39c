// Folders of runs that were copied or moved: no other run, and no `strata gc`, takes the store of
// one away.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

class MovedRun : public DurableRuns {
 protected:
  MovedRun() : DurableRuns(12) {
    for (const char* drive : {"a", "b"}) folder_.make_folder(drive);
  }
};

TEST_F(MovedRun, ACopyOfItsFolderCannotTakeItsStore) {
  complete("run", {"--nvme", "a"});
  fs::copy(path("run"), path("copy"), fs::copy_options::recursive);
  for (const char* drive : {"a", "b"}) {
    expect_refused("copy", {"--resume", "--nvme", drive}, 2,
                   {store_file("run", "a"), "the store of run " + path("run"), "--resume-from"});
  }
  expect_intact("run");
}

TEST_F(MovedRun, ACopyWithItsStoreIsARunOfItsOwn) {
  complete("run", {});
  fs::copy(path("run"), path("copy"), fs::copy_options::recursive);
  complete("copy", {"--resume", "--nvme", "b"});
  expect_intact("copy");
  expect_intact("run");
}

TEST_F(MovedRun, GcKeepsItsStoreWhenAnotherRunTakesItsName) {
  complete("run", {"--nvme", "a"});
  fs::rename(path("run"), path("moved"));
  complete("moved", {"--nvme", "a", "--resume"});
  complete("run", {"--nvme", "a"});
  const test::ProcessResult gc = strata({"gc", "a"});
  EXPECT_EQ(gc.exit_code, 0) << gc.err;
  EXPECT_PRED2(test::mentions, gc.out, "has another store now");
  expect_intact("moved");
  expect_intact("run");
}

}  // namespace
}  // namespace strata::engine
