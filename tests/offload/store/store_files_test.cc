// What a run writes at the beginning of its files, and how others find it.
#include "offload/store/store_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "kernels/base/error.h"
#include "offload/store/checksum.h"
#include "offload/store/store_search.h"
#include "offload/store/superblock.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::store::testing {
namespace {

using test::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(StoreFiles, NamesHoldRunAndRank) {
  const StoreIdentity identity{"00112233445566778899aabbccddeeff", 12, 16, ""};
  EXPECT_EQ(store_file_name(identity), "strata-00112233445566778899aabbccddeeff-rank12.store");
}

TEST(StoreFiles, RunIdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    ids.insert(new_run_id());
    EXPECT_NO_THROW(parse_run_id(*ids.rbegin()));
  }
  EXPECT_EQ(ids.size(), 100u);
}

TEST(StoreFiles, EveryFileDescribesTheStore) {
  const TemporaryFolder first, second;
  const StoreIdentity identity{new_run_id(), 1, 2, "/runs/seven"};
  const std::string name = leave_store({first.path(), second.path()}, identity);
  int directory = 0;
  for (const TemporaryFolder* folder : {&first, &second}) {
    const std::string file = test::contents_of(folder->path(name));
    const FileHeader header = decode_header(bytes_of(file));
    EXPECT_EQ(format_run_id(header.run_id), identity.run_id);
    EXPECT_EQ(header.rank, 1);
    EXPECT_EQ(header.world_size, 2);
    EXPECT_EQ(header.run_folder, "/runs/seven");
    EXPECT_EQ(header.directory, directory++);
    ASSERT_EQ(header.directories(), 2);
    EXPECT_GT(header.shares[1].stripes, header.shares[0].stripes);  // twice as fast
    EXPECT_EQ(header.data_bytes, small_manifest().data_bytes);

    const std::string text = file.substr(static_cast<std::size_t>(header.layout().manifest),
                                         static_cast<std::size_t>(header.manifest_bytes));
    EXPECT_EQ(manifest_checksum(text), header.manifest_checksum);
    const Manifest manifest = decode_manifest(text);
    EXPECT_EQ(manifest.units, small_manifest().units);
    EXPECT_EQ(header.commit_table_bytes, commit_table_bytes(manifest));
    for (int copy : {0, 1}) {
      const auto place =
          static_cast<std::size_t>(header.layout().superblocks[static_cast<std::size_t>(copy)]);
      EXPECT_FALSE(decode_superblock(bytes_of(file).subspan(place), copy));
    }
    EXPECT_GE(static_cast<std::int64_t>(file.size()), header.layout().bytes);
  }
}

TEST(StoreFiles, DataDoesNotTouchTheMetadata) {
  const TemporaryFolder folder;
  const StoreIdentity identity{new_run_id(), 0, 1, ""};
  auto volume = make_store({folder.path()}, identity);
  Budget budget("host memory", kPageBytes);
  const AlignedBuffer page(budget, "page", kPageBytes);
  std::fill_n(page.data(), kPageBytes, std::byte{0xEE});
  io::IoGroup group;
  volume->write(0, page.span(), group);
  group.wait();
  volume->keep();
  volume.reset();
  const std::string file = test::contents_of(folder.path(store_file_name(identity)));
  const FileHeader header = decode_header(bytes_of(file));
  EXPECT_EQ(file[static_cast<std::size_t>(header.layout().bytes)], '\xEE');
}

TEST(StoreSearch, TellsLivingFromIdleFromDamaged) {
  const TemporaryFolder folder;
  const StoreIdentity living{new_run_id(), 0, 1, "/runs/living"};
  const StoreIdentity dead{new_run_id(), 0, 1, "/runs/stale"};
  const StoreIdentity damaged{new_run_id(), 3, 4, ""};
  const auto volume = make_store({folder.path()}, living);
  leave_store({folder.path()}, dead);
  {
    std::fstream file(folder.path(leave_store({folder.path()}, damaged)),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x');
  }
  const std::vector<FoundStore> stores = find_stores(folder.path());
  ASSERT_EQ(stores.size(), 3u);
  const auto find = [&](const StoreIdentity& identity) -> const FoundStore& {
    return *std::find_if(stores.begin(), stores.end(), [&](const FoundStore& found) {
      return found.file.path() == folder.path(store_file_name(identity));
    });
  };
  EXPECT_EQ(find(living).state, StoreState::in_use);
  EXPECT_EQ(find(living).header->run_folder, "/runs/living");
  EXPECT_EQ(find(dead).state, StoreState::idle);
  EXPECT_EQ(find(dead).header->run_folder, "/runs/stale");
  EXPECT_EQ(find(damaged).state, StoreState::damaged);
  EXPECT_FALSE(find(damaged).header);
  EXPECT_TRUE(test::mentions(find(damaged).problem, "checksum"));
}

TEST(StoreSearch, LooksAtFilesOfItsOwnNameOnly) {
  const TemporaryFolder folder;
  const std::string id(32, 'a');
  for (const std::string& name :
       {"strata-" + id + "-rank0.store.bak", "strata-" + id + "-rank.store",
        "strata-" + id + "-rankx.store", "strata-" + id + ".store", "strata-" + id + "-rank0.sto",
        "strata-" + std::string(31, 'a') + "-rank0.store", std::string("strata-.store"),
        "xstrata-" + id + "-rank0.store", "strata-" + std::string(32, 'A') + "-rank0.store"}) {
    std::ofstream(folder.path(name)) << "mine";
  }
  std::filesystem::create_directory(folder.path("strata-" + id + "-rank1.store"));
  std::ofstream(folder.path("other")) << "mine";
  std::filesystem::create_symlink("loop", folder.path("loop"));
  std::filesystem::create_symlink(folder.path("other"),
                                  folder.path("strata-" + id + "-rank2.store"));
  EXPECT_TRUE(find_stores(folder.path()).empty());
  std::ofstream(folder.path("strata-" + id + "-rank0.store")) << "short";
  const std::vector<FoundStore> stores = find_stores(folder.path());
  ASSERT_EQ(stores.size(), 1u);
  EXPECT_EQ(stores[0].state, StoreState::damaged);
}

// Never taken for damaged, which may be removed: a newer program may have made it.
TEST(StoreSearch, AStoreOfAnotherVersionIsKnownAsOne) {
  const TemporaryFolder folder;
  const std::string path = folder.path(leave_store({folder.path()}, {new_run_id(), 0, 1, ""}));
  std::string header = test::contents_of(path).substr(0, kHeaderBytes);
  header[8] = 2;
  const std::uint64_t sum =
      checksum(bytes_of(header).data(), kHeaderBytes - 8, 0x68656164);  // docs/store-format.md
  std::memcpy(header.data() + kHeaderBytes - 8, &sum, sizeof sum);
  std::ofstream(path, std::ios::in | std::ios::out | std::ios::binary) << header;
  EXPECT_EQ(find_stores(folder.path()).at(0).state, StoreState::other_version);
}

TEST(StoreFiles, RunFoldersAreAbsoluteAndHarmless) {
  const TemporaryFolder folder;
  const auto volume = make_store({folder.path()}, {new_run_id(), 0, 1, "a\x1b[2J\nb"});
  EXPECT_EQ(find_stores(folder.path()).at(0).header->run_folder,
            std::filesystem::current_path() / "a?[2J?b");
}

// The superblocks are in the file of the first directory.
TEST(StoreSearch, TellsWhetherARunCouldGoOn) {
  const TemporaryFolder first, second;
  const StoreIdentity identity{new_run_id(), 0, 1, "/runs/one"};
  const auto volume = make_store({first.path(), second.path()}, identity, two_slot_manifest());
  volume->keep();
  const auto holding = [&](const TemporaryFolder& folder) {
    const auto found = look_at_store(folder.path(store_file_name(identity)));
    return std::pair(found->holding, found->step);
  };
  EXPECT_EQ(holding(first), std::pair(Holding::nothing, std::int64_t{0}));
  commit_steps(*volume, two_slot_manifest(), {10});
  EXPECT_EQ(holding(first), std::pair(Holding::state, std::int64_t{10}));
  commit_steps(*volume, two_slot_manifest(), {10, 20});
  EXPECT_EQ(holding(first), std::pair(Holding::state, std::int64_t{20}));
  EXPECT_EQ(holding(second).first, Holding::unknown);
  std::fstream(first.path(store_file_name(identity)),
               std::ios::in | std::ios::out | std::ios::binary)
      .seekp(kHeaderBytes + 100)
      .put('x');
  EXPECT_EQ(holding(first).first, Holding::unknown);
}

// A run without checkpoints that was stopped in mid-step: its older mark counts for nothing.
TEST(StoreSearch, AStartedMarkHoldsNothing) {
  const TemporaryFolder folder;
  const StoreIdentity identity{new_run_id(), 0, 1, "/runs/one"};
  const Manifest manifest = small_manifest();
  const auto volume = make_store({folder.path()}, identity);
  volume->keep();
  mark_clean_and_started(*volume, manifest, 7);
  EXPECT_EQ(look_at_store(folder.path(store_file_name(identity)))->holding, Holding::nothing);
}

TEST(StoreSearch, AMissingDirectoryIsNamed) {
  const auto text = test::error_text<IoError>([] { find_stores("/no/such/place"); });
  EXPECT_TRUE(test::mentions(text, "/no/such/place")) << text;
}

}  // namespace
}  // namespace strata::store::testing
