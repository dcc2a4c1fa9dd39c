// A store that loses power at every single write and flush in turn, and what of it is found then.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/base/error.h"
#include "tests/offload/store/little_store.h"

namespace strata::store::testing {
namespace {

using io::CrashDisk;

constexpr std::uint64_t kSeeds = 6;

// What a run does with its store.
using Script = std::function<void(LittleStore&)>;

const FoundCommit* newest_of(const FoundCommits& found) {
  return found.valid.empty() ? nullptr : &found.valid.front();
}

class CommitLogCrash : public ::testing::Test {
 protected:
  struct Crash {
    Expectations expected;
    std::unique_ptr<CrashDisk> disk;
  };

  // `run` on drives that hold `images`, up to the crash.
  static Crash crash(const std::vector<CrashDisk::Image>& images, const Expectations& before,
                     int slots, const Script& run, std::int64_t crash_at) {
    Crash crash{before, nullptr};
    io::CrashRules rules;
    rules.crash_at = crash_at;
    crash.disk = std::make_unique<CrashDisk>(images, rules);
    LittleStore store(slots, crash.disk->open(), crash.expected);
    try {
      run(store);
    } catch (const IoError&) {
      EXPECT_TRUE(crash.disk->has_crashed());
    }
    return crash;
  }

  // With every operation of `run` as the crash and several seeds each: looks at what is left, and
  // goes on from it.
  static void crash_everywhere(const std::vector<CrashDisk::Image>& images,
                               const Expectations& before, int slots, const Script& run) {
    const Crash whole = crash(images, before, slots, run, -1);
    ASSERT_FALSE(whole.disk->has_crashed());
    for (std::int64_t at = 0; at <= whole.disk->operations(); ++at) {
      const Crash crashed = crash(images, before, slots, run, at);
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(fmt::format("crash at operation {} of {}, seed {}", at,
                                 whole.disk->operations(), seed));
        look_and_go_on(crashed, slots, seed);
        if (HasFailure()) return;
      }
    }
  }

  static void look_and_go_on(const Crash& crashed, int slots, std::uint64_t seed) {
    CrashDisk disk(crashed.disk->after_crash(seed));
    Expectations expected = crashed.expected;
    LittleStore store(slots, disk.open(), expected);
    const FoundCommits found = store.log().read();
    const FoundCommit* const newest = newest_of(found);
    const int id = newest != nullptr ? id_of(*newest) : Expectations::kNothing;
    ASSERT_TRUE(expected.newest.contains(id)) << "found " << id;
    // A superblock is whole or not there; only its table may be another's by now.
    EXPECT_EQ(found.problems.size(), found.without_table.size());
    const bool has_state = newest != nullptr && newest->superblock.kind != SuperblockKind::started;
    if (has_state) store.expect_whole(*newest);
    if (newest != nullptr && !has_state) return;  // stopped in the middle of a step

    store.adopt(newest);
    if (newest == nullptr) store.fill();
    if (slots == 1) store.mark_started();
    for (const int unit : LittleStore::kUpdated) store.update(unit);
    store.save(slots == 1 ? SuperblockKind::clean_mark : SuperblockKind::commit);
    const FoundCommits next = store.log().read();
    ASSERT_FALSE(next.valid.empty());
    EXPECT_TRUE(next.problems.empty());
    EXPECT_TRUE(expected.newest.contains(id_of(next.valid.front())));
    store.expect_whole(next.valid.front());
    EXPECT_EQ(next.valid.front().superblock.sequence,
              (newest != nullptr ? newest->superblock.sequence : 0) + (slots == 1 ? 2 : 1));
  }
};

// A unit that is updated twice between commits, and one that keeps its slot over some.
void train(LittleStore& store) {
  store.fill();
  store.save(SuperblockKind::commit);
  for (int step = 1; step <= 4; ++step) {
    store.update(0);
    if (step == 2) store.update(1);
    if (step == 3) store.update(0);
    store.save(SuperblockKind::commit);
  }
}

TEST_F(CommitLogCrash, LeavesTheNewestCommitThatWasAcknowledgedOrTheOneInTheMaking) {
  crash_everywhere(LittleStore::blank(2), {}, 2, train);
}

// As when the newest is not valid on another rank: it is erased before anything overwrites it.
TEST_F(CommitLogCrash, GoingOnFromTheOlderCommitErasesTheNewer) {
  const Crash trained = crash(LittleStore::blank(2), {}, 2, train, -1);
  crash_everywhere(trained.disk->after_crash(0), trained.expected, 2, [](LittleStore& store) {
    const FoundCommits found = store.log().read();
    ASSERT_EQ(found.valid.size(), 2u);
    store.expect_whole(found.valid[1]);
    store.adopt(&found.valid[1]);
    for (int step = 0; step < 2; ++step) {
      for (const int unit : LittleStore::kUpdated) store.update(unit);
      store.save(SuperblockKind::commit);
    }
  });
}

// Starting again from nothing, over two commits.
TEST_F(CommitLogCrash, GoingOnFromNothingErasesBoth) {
  const Crash trained = crash(LittleStore::blank(2), {}, 2, train, -1);
  Expectations expected = trained.expected;
  expected.newest.insert(static_cast<int>(expected.versions.size()) - 2);  // while both are erased
  crash_everywhere(trained.disk->after_crash(0), expected, 2, [](LittleStore& store) {
    store.adopt(nullptr);
    train(store);
  });
}

TEST_F(CommitLogCrash, AStoreOfOneSlotIsCleanOnlyWhereNoWriteBeganAfterTheMark) {
  crash_everywhere(LittleStore::blank(1), {}, 1, [](LittleStore& store) {
    store.fill();
    for (int stop = 0; stop < 3; ++stop) {
      store.mark_started();
      for (int step = 0; step < 2; ++step) {
        for (const int unit : LittleStore::kUpdated) store.update(unit);
      }
      store.save(SuperblockKind::clean_mark);
    }
  });
}

}  // namespace
}  // namespace strata::store::testing
