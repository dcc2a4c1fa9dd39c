// The choice of a commit from what crashes and damage leave of superblocks, case by case as
// docs/store-format.md lists them.
#include "engine/checkpoint/commit_choice.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using store::FoundCommits;
using store::Superblock;
using store::SuperblockKind;
using test::error_text;
using test::mentions;

// Superblock n of a run that stops every ten steps.
Superblock mark(std::int64_t sequence, SuperblockKind kind) {
  Superblock superblock;
  superblock.kind = kind;
  superblock.sequence = sequence;
  superblock.step = sequence * 10;
  return superblock;
}
Superblock commit(std::int64_t sequence) { return mark(sequence, SuperblockKind::commit); }

struct Copies {
  std::vector<Superblock> valid{};
  std::vector<Superblock> without_table{};
  int unreadable = 0;
};

ShardCommits shard(const Copies& copies) {
  FoundCommits found;
  for (const Superblock& superblock : copies.valid) found.valid.push_back({superblock, {}});
  found.without_table = copies.without_table;
  for (std::size_t i = 0; i < copies.without_table.size(); ++i) {
    found.problems.push_back("FILE, copy 1: the table differs");
  }
  for (int i = 0; i < copies.unreadable; ++i) {
    found.problems.push_back("FILE, copy 0: the checksum differs");
  }
  return summary_of(found);
}

CommitChoice choose(const std::vector<Copies>& ranks, int slots = 2,
                    std::optional<std::int64_t> wanted = {}) {
  std::vector<ShardCommits> shards;
  for (const Copies& copies : ranks) shards.push_back(shard(copies));
  return choose_commit(shards, slots, wanted);
}

TEST(CommitChoice, NothingWasCommitted) {
  const CommitChoice choice = choose({{}, {}});
  EXPECT_FALSE(choice.sequence || choice.other);
  EXPECT_EQ(choice.damage, "");
}

TEST(CommitChoice, TheNewestOnAllRanks) {
  const CommitChoice choice = choose({{{commit(5), commit(4)}}, {{commit(5), commit(4)}}});
  EXPECT_EQ(choice.sequence, 5);
  EXPECT_EQ(choice.other, 4);
  EXPECT_EQ(choice.damage, "");
}

TEST(CommitChoice, ANewerOneOfSomeRanksIsNotChosen) {
  EXPECT_EQ(choose({{{commit(5), commit(4)}}, {{commit(4), commit(3)}}}).sequence, 4);
  EXPECT_EQ(choose({{{commit(5), commit(4)}}, {{commit(4), commit(3)}}}).other, std::nullopt);
  EXPECT_EQ(choose({{{commit(1)}}, {}}).sequence, std::nullopt);
  EXPECT_EQ(choose({{{commit(1)}}, {}}).damage, "");
}

TEST(CommitChoice, ATableThatIsBeingOverwrittenIsNoDamage) {
  const CommitChoice choice = choose({{{commit(5)}, {commit(4)}}, {{commit(5), commit(4)}}});
  EXPECT_EQ(choice.sequence, 5);
  EXPECT_EQ(choice.damage, "");
}

// It may have been the newest.
TEST(CommitChoice, AnUnreadableSuperblockIsDamage) {
  for (const Copies& one : {Copies{{commit(5)}, {}, 1}, Copies{{commit(4)}, {}, 1}}) {
    const CommitChoice choice = choose({{{commit(5), commit(4)}}, one});
    EXPECT_EQ(choice.sequence, std::nullopt);
    EXPECT_EQ(choice.other, one.valid.front().sequence);
    EXPECT_TRUE(mentions(choice.damage, "rank 1: FILE, copy 0")) << choice.damage;
  }
  for (const int slots : {1, 2}) {
    EXPECT_NE(choose({{{}, {}, 1}}, slots).damage, "");
    EXPECT_EQ(choose({{{}, {}, 1}}, slots).other, std::nullopt);
  }
}

TEST(CommitChoice, ANewestTableThatDoesNotMatchIsDamage) {
  const CommitChoice choice = choose({{{commit(5), commit(4)}}, {{commit(4)}, {commit(5)}}});
  EXPECT_EQ(choice.sequence, std::nullopt);
  EXPECT_EQ(choice.other, 4);
  EXPECT_TRUE(mentions(choice.damage, "rank 1: FILE, copy 1")) << choice.damage;
  // Not when another rank never wrote that one.
  EXPECT_EQ(choose({{{commit(4), commit(3)}}, {{commit(4)}, {commit(5)}}}).sequence, 4);
}

// Superblock 5 of one rank shows that 4 was acknowledged.
TEST(CommitChoice, AnAcknowledgedCommitThatIsGoneIsDamage) {
  for (const Copies& lost : {Copies{{commit(3)}, {}, 1}, Copies{{commit(3)}}, Copies{}}) {
    const CommitChoice choice = choose({{{commit(5), commit(4)}}, lost});
    EXPECT_EQ(choice.sequence, std::nullopt);
    EXPECT_TRUE(mentions(choice.damage, "rank 1: ")) << choice.damage;
  }
}

TEST(CommitChoice, TheWantedStepDecides) {
  const std::vector<Copies> ranks = {{{commit(5), commit(4)}}, {{commit(5), commit(4)}}};
  EXPECT_EQ(choose(ranks, 2, 40).sequence, 4);
  EXPECT_EQ(choose(ranks, 2, 40).other, 5);
  const auto text = error_text<ConfigError>([&] { choose(ranks, 2, 30); });
  EXPECT_TRUE(mentions(text, "--resume-step 30")) << text;
  EXPECT_TRUE(mentions(text, "50 and 40")) << text;
  // It is asked for, so that damage of the other one does not matter.
  EXPECT_EQ(choose({{{commit(4)}, {commit(5)}}}, 2, 40).sequence, 4);
}

TEST(CommitChoice, ShardsThatContradictEachOtherAreRefused) {
  Superblock other = commit(5);
  other.snapshot.data_position = 1;
  EXPECT_THROW(choose({{{commit(5)}}, {{other}}}), FormatError);
}

TEST(CommitChoice, OneSlotGoesOnFromACleanMarkOnly) {
  const Superblock started = mark(3, SuperblockKind::started);
  const Superblock clean = mark(4, SuperblockKind::clean_mark);
  EXPECT_EQ(choose({{{clean, started}}, {{clean, started}}}, 1).sequence, 4);
  EXPECT_EQ(choose({{{clean, started}}, {{clean, started}}}, 1).other, std::nullopt);
  // Started again, but not by all: nobody has written an update.
  const Superblock again = mark(5, SuperblockKind::started);
  EXPECT_EQ(choose({{{again, clean}}, {{clean, started}}}, 1).sequence, 4);
  const auto text = error_text<ConfigError>([&] { choose({{{clean, started}}, {{started}}}, 1); });
  EXPECT_TRUE(mentions(text, "in the middle of a step, some time after step 30")) << text;
  EXPECT_TRUE(mentions(text, "--checkpoint-every 0")) << text;
  // What an older mark says is no longer there, whoever asks for it.
  EXPECT_THROW(choose({{{again, clean}}}, 1, 40), ConfigError);
  EXPECT_EQ(choose({{{again}, {}, 1}}, 1).other, std::nullopt);
}

}  // namespace
}  // namespace strata::engine
