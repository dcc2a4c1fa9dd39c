// Several files as one sequence of tokens.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <thread>

#include "engine/data/input_file.h"
#include "engine/data/token_source.h"
#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::bytes_of;
using test::error_text;
using test::llmc_header;
using test::MegatronIndex;
using test::mentions;
using test::open_tokens;
using test::read_all;
using Ids = std::vector<std::int32_t>;
using Words = std::vector<std::uint16_t>;

// `count` files of 1 to 7 tokens, f000.bin and on; token i of all of them is i.
std::string write_files(const test::DataFolder& folder, int count, Ids& all) {
  for (int i = 0; i < count; ++i) {
    Words tokens;
    for (int k = 0; k <= i % 7; ++k) {
      tokens.push_back(static_cast<std::uint16_t>(all.size()));
      all.push_back(tokens.back());
    }
    folder.write(fmt::format("f{:03}.bin", i), bytes_of(tokens));
  }
  return folder.path("f*.bin");
}

std::int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(TokenFiles, AreOneSequence) {
  const test::DataFolder folder;
  Ids all;
  const auto source = open_tokens(write_files(folder, 10, all), 65536);
  EXPECT_EQ(source->description(), "34 nanoGPT tokens in 10 files");  // 28 + 1 + 2 + 3
  for (std::size_t first = 0; first <= all.size(); ++first) {
    for (std::size_t count = 0; first + count <= all.size(); ++count) {
      Ids ids(count, -1);
      source->read(static_cast<std::int64_t>(first), ids);
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), all.begin() + static_cast<long>(first)))
          << first << ' ' << count;
    }
  }
}

TEST(TokenFiles, MegatronAndLlmcFilesJoinWithoutTheirHeaders) {
  const test::DataFolder folder;
  const std::string one = bytes_of(Words{1, 2});
  const std::string two = bytes_of(Words{3});
  const std::string llmc = folder.write("b.bin", llmc_header(20240520, 1, 1) + two) + "," +
                           folder.write("a.bin", llmc_header(20240520, 1, 2) + one);
  EXPECT_EQ(read_all(*open_tokens(llmc, 100)), (Ids{3, 1, 2}));  // the list's order
  folder.write("m1.idx", MegatronIndex({2}, 8, 2).bytes());
  folder.write("m1.bin", one);
  folder.write("m2.idx", MegatronIndex({1}, 8, 2).bytes());
  folder.write("m2.bin", two);
  for (const std::string& name : {folder.path("m*.idx"), folder.path("m*.bin"),
                                  folder.path("m1") + "," + folder.path("m2.bin")}) {
    const auto source = open_tokens(name, 100);
    EXPECT_EQ(read_all(*source), (Ids{1, 2, 3})) << name;
    EXPECT_EQ(source->description(), "3 Megatron uint16 tokens in 2 files");
  }
}

TEST(TokenFiles, HundredsOpenFewDescriptorsAndAllocateNothing) {
  const test::DataFolder folder;
  Ids all;
  const auto source = open_tokens(write_files(folder, 500, all), 65536);
  const std::int64_t before = open_descriptors();
  Ids ids(all.size());
  const std::int64_t allocations = test::allocation_count;
  source->read(0, ids);
  EXPECT_EQ(test::allocation_count, allocations);
  EXPECT_EQ(ids, all);
  EXPECT_LE(open_descriptors() - before, static_cast<std::int64_t>(InputFiles::kOpenMax));
}

TEST(TokenFiles, ThreadsTakeDescriptorsFromEachOther) {
  const test::DataFolder folder;
  Ids all;
  const auto source = open_tokens(write_files(folder, 300, all), 65536);
  const auto read_windows = [&](unsigned seed, bool& good) {
    std::mt19937 random(seed);
    Ids ids(20);
    for (int i = 0; i < 300; ++i) {
      const std::size_t first = random() % (all.size() - ids.size());
      source->read(static_cast<std::int64_t>(first), ids);
      good = good && std::equal(ids.begin(), ids.end(), all.begin() + static_cast<long>(first));
    }
  };
  std::array<bool, 4> good = {true, true, true, true};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { read_windows(i, good[i]); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, (std::array<bool, 4>{true, true, true, true}));
}

TEST(TokenFiles, FormatsDoNotMix) {
  const test::DataFolder folder;
  const std::string text = folder.write("a.txt", "ab");
  const std::string nanogpt = folder.write("b.bin", bytes_of(Words{1, 2}));
  const std::string llmc =
      folder.write("c.bin", llmc_header(20240520, 1, 2) + bytes_of(Words{1, 2}));
  const std::string llama =
      folder.write("d.bin", llmc_header(20240801, 7, 1) + bytes_of(Words{1, 0}));
  const std::string files[] = {text, nanogpt, llmc, llama};
  for (const std::string& one : files) {
    for (const std::string& other : files) {
      if (one == other) continue;
      const auto message =
          error_text<ConfigError>([&] { (void)open_tokens(one + "," + other, 256); });
      EXPECT_TRUE(mentions(message, "'" + one + "' holds ")) << message;
      EXPECT_TRUE(mentions(message, "but '" + other + "' holds ")) << message;
    }
  }
}

TEST(TokenFiles, AreNamedOnce) {
  const test::DataFolder folder;
  const std::string path = folder.write("a.bin", bytes_of(Words{1, 2}));
  std::filesystem::create_symlink(path, folder.path("link.bin"));
  folder.write("m.bin", bytes_of(Words{1, 2}));
  folder.write("m.idx", MegatronIndex({2}, 8, 2).bytes());
  for (const std::string& names :
       {path + "," + path, path + "," + folder.path("link.bin"), folder.path("m.*")}) {
    const auto message = error_text<ConfigError>([&] { (void)open_tokens(names, 100); });
    EXPECT_TRUE(mentions(message, "name the same tokens")) << message;
  }
}

TEST(TokenFiles, AnEmptyOneAndABadIdAreNamed) {
  const test::DataFolder folder;
  folder.write("a.bin", bytes_of(Words{1, 2}));
  folder.write("b.bin", bytes_of(Words{3, 100}));
  const auto source = open_tokens(folder.path("*.bin"), 100);
  auto message = error_text<FormatError>([&] { (void)read_all(*source); });
  EXPECT_TRUE(mentions(message, "b.bin': id 100 at position 1 ")) << message;
  folder.write("c.bin", "");
  message = error_text<ConfigError>([&] { (void)open_tokens(folder.path("*.bin"), 100); });
  EXPECT_TRUE(mentions(message, "c.bin' holds no tokens")) << message;
}

TEST(TokenFiles, AnotherFileInTheSamePlaceIsNotRead) {
  const test::DataFolder folder;
  const std::string path = folder.write("a.bin", bytes_of(Words{1, 2}));
  const auto source = open_tokens(path, 100);
  std::filesystem::rename(folder.write("new.bin", bytes_of(Words{3, 4})), path);
  const auto message = error_text<IoError>([&] { (void)read_all(*source); });
  EXPECT_TRUE(mentions(message, "another file has taken its place")) << message;
}

// Sparse files: bytes and positions are beyond 2^32 in one file, and in the sequence of two.
TEST(TokenFiles, AreLargerThanFourGiB) {
  const test::DataFolder folder;
  constexpr std::int64_t kTokens = (std::int64_t{1} << 32) + 1000;
  const std::string names[] = {folder.path("a.bin"), folder.path("b.bin")};
  for (const std::string& name : names) {
    std::ofstream file(name, std::ios::binary);
    file.seekp(2 * (kTokens - 2));
    file << bytes_of(Words{7, 8});
    file.close();
    struct stat status {};
    ASSERT_EQ(::stat(name.c_str(), &status), 0);
    if (status.st_size != 2 * kTokens || status.st_blocks > 1'000'000) {
      GTEST_SKIP() << "no sparse files in " << folder.path();
    }
  }
  const auto source = open_tokens(names[0] + "," + names[1], 100);
  ASSERT_EQ(source->tokens(), 2 * kTokens);
  Ids ids(4);
  source->read(kTokens - 3, ids);
  EXPECT_EQ(ids, (Ids{0, 7, 8, 0}));
  source->read(2 * kTokens - 4, ids);
  EXPECT_EQ(ids, (Ids{0, 0, 7, 8}));
}

}  // namespace
}  // namespace strata::engine
