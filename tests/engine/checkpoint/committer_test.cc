// The order of a commit: what it needs beside the store is durable before its superblock is.
#include "engine/checkpoint/committer.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/error.h"
#include "tests/engine/checkpoint/synthetic_run.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

// A store with a commit of step 10, and an update after it.
class CommitterTest : public ::testing::Test {
 protected:
  CommitterTest() {
    run_.update(1);
    run_.commit(10);
    run_.update(2);
  }

  // The step that a run would go on from if the process ended now.
  std::optional<std::int64_t> step_on_drive() {
    store::CommitLog log(*run_.volume, run_.volume->file(0), run_.header, run_.manifest,
                         reader_staging_.span());
    const store::FoundCommits found = log.read();
    if (found.valid.empty()) return std::nullopt;
    return found.valid.front().superblock.step;
  }

  // Commits step 20.
  void commit(std::function<void()> before_superblock) {
    Committer committer({*run_.store, *run_.log, run_.manifest, run_.device, run_.failure, nullptr,
                         std::move(before_superblock)},
                        run_.staging.span(), std::nullopt);
    committer.want(20, RankOfRun::snapshot_of(20));
    committer.updates_applied();
    committer.before_updates();
    committer.updates_may_start();
    EXPECT_EQ(committer.committed_step(), 20);
  }

  test::TemporaryFolder folder_;
  RankOfRun run_{RunShape{}, 0, kRunId, folder_.path()};
  AlignedBuffer reader_staging_{run_.host, "reader",
                                store::CommitLog::staging_bytes(run_.manifest)};
};

TEST_F(CommitterTest, TheLogIsDurableBeforeTheSuperblock) {
  std::optional<std::int64_t> during;
  commit([&] { during = step_on_drive(); });
  EXPECT_EQ(during, 10);
  EXPECT_EQ(step_on_drive(), 20);
}

TEST_F(CommitterTest, WithoutItsLogACommitIsNotMade) {
  const std::string error = test::error_text<IoError>(
      [&] { commit([] { throw_error<IoError>("flush log: No space left on device"); }); });
  EXPECT_PRED2(test::mentions, error, "flush log");
  EXPECT_EQ(step_on_drive(), 10);
}

}  // namespace
}  // namespace strata::engine::testing
