// Stores that runs go on from, and what becomes of it, on ranks that are threads.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "engine/checkpoint/stored_run.h"
#include "tests/engine/checkpoint/synthetic_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_ranks.h"

namespace strata::engine::testing {

inline constexpr const char* kNewId = "ffeeddccbbaa99887766554433221100";

// Which directories each rank looks in.
enum class Drives : std::uint8_t { shared, local };

class StoredRunTest : public ::testing::Test {
 protected:
  std::string directory(const std::string& run_id, int rank) const {
    return folder_.path(run_id.substr(0, 4) + "-" + std::to_string(rank));
  }
  std::string file_of(const std::string& run_id, int rank) const {
    return directory(run_id, rank) + "/" + store::store_file_name({run_id, rank, rank + 1, ""});
  }
  StorePointer pointer_to(const std::string& run_id, int world_size) const {
    StorePointer pointer{run_id, {}};
    for (int rank = 0; rank < world_size; ++rank) {
      pointer.ranks.push_back({"host" + std::to_string(rank), {directory(run_id, rank)}});
    }
    return pointer;
  }
  // The same where the directories are not what they were.
  static StorePointer moved(StorePointer pointer) {
    for (StoreOfRank& rank : pointer.ranks) rank.directories = {"/nowhere/at/all"};
    return pointer;
  }

  // A run that commits every ten steps; its state at step s is version s of the pattern.
  void make_run(const RunShape& shape, std::int64_t commits = 2) {
    for (int rank = 0; rank < shape.world_size; ++rank) {
      std::filesystem::create_directory(directory(kRunId, rank));
      RankOfRun run(shape, rank, kRunId, directory(kRunId, rank));
      for (std::int64_t c = 1; c <= commits; ++c) {
        if (shape.durability == offload::Durability::clean_mark) {
          run.commit(10 * c - 10, store::SuperblockKind::started);
        }
        run.update(static_cast<std::uint64_t>(10 * c));
        run.commit(10 * c, shape.durability == offload::Durability::clean_mark
                               ? store::SuperblockKind::clean_mark
                               : store::SuperblockKind::commit);
      }
    }
  }

  // Runs body(rank's communicator) on ranks; "" when none fails, otherwise what all threw.
  static std::string failure_on(int ranks, const std::function<void(comm::Communicator&)>& body) {
    const std::vector<std::exception_ptr> failures = test::ThreadRanks(ranks).run(body);
    const std::string text = what(failures.front());
    for (const std::exception_ptr& failure : failures) EXPECT_EQ(what(failure), text);
    return text;
  }
  static std::string what(const std::exception_ptr& failure) {
    if (!failure) return "";
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  // Goes on from `pointer` in a new store `run_id` of `shape`; the state has to be `version`.
  // Commits it and deletes the old one.
  std::string migrate(const StorePointer& pointer, const std::string& run_id, const RunShape& shape,
                      std::uint64_t version, Drives drives) {
    for (int rank = 0; rank < shape.world_size; ++rank) {
      std::filesystem::remove_all(directory(run_id, rank));
      std::filesystem::create_directory(directory(run_id, rank));
    }
    return failure_on(shape.world_size, [&](comm::Communicator& comm) {
      StoredRunOptions options;
      if (drives == Drives::local && comm.rank() < pointer.world_size()) {
        options.directories = {directory(pointer.run_id, comm.rank())};
      }
      StoredRun old(drives == Drives::local ? moved(pointer) : pointer, options, comm);
      RankOfRun now(shape, comm.rank(), run_id, directory(run_id, comm.rank()));
      ASSERT_FALSE(old.fits(now.manifest, {directory(run_id, comm.rank())}));
      old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
      now.expect_state(version, Padding::zeros);
      if (shape.tier == offload::Tier::nvme) now.commit(old.commit()->step);
      old.remove();
    });
  }

  // Changes a byte of a state of a commit: 0: the last, 1: the one before.
  void damage(int rank, int unit, offload::StateKind kind, std::size_t commit) {
    store::StoredShard shard({file_of(kRunId, rank)}, io::VolumeAccess::exclusive, {}, nullptr);
    const auto live = shard.commits().valid.at(commit).table.live_slots[std::size_t(unit)];
    const auto& extent = *shard.manifest().units[std::size_t(unit)].extents[std::size_t(kind)];
    Budget budget("test", kPageBytes);
    AlignedBuffer page(budget, "page", kPageBytes);
    io::IoGroup group;
    shard.volume().read(extent.slot_offsets[live] + 8192, page.span(), group);
    group.wait();
    page.data()[5] ^= std::byte{1};
    shard.volume().write(extent.slot_offsets[live] + 8192, page.span(), group);
    group.wait();
  }
  static void overwrite(const std::string& file, std::int64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(offset).write("damage", 6);
  }

  test::TemporaryFolder folder_;
};

}  // namespace strata::engine::testing
