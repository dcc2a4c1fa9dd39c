// IoBench on a storage in memory, and the command on a small file.
#include "engine/tools/bench_io.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine/tools/bench_io_command.h"
#include "io/fault_storage.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

constexpr std::int64_t kBlock = 64 * kKiB;
constexpr std::int64_t kBlocks = 16;

IoBenchOptions small_bench(Checksums checksums) {
  return {.checksums = checksums, .granule_bytes = kBlock, .memory_bytes = 5 * kBlock};
}

TEST(IoBench, FillWritesEveryByteOnceAndNoTwoPagesAlike) {
  const auto storage = io::make_memory_storage(kBlocks * kBlock);
  IoBench bench(*storage, small_bench(Checksums::on));
  bench.fill();
  EXPECT_EQ(storage->traffic().written_bytes, kBlocks * kBlock);
  EXPECT_EQ(storage->traffic().read_bytes, 0);

  Budget budget("test", kBlocks * kBlock);
  const AlignedBuffer all(budget, "all", kBlocks * kBlock);
  io::IoGroup group;
  storage->read(0, all.span(), group);
  group.wait();
  std::set<std::string> pages;
  for (std::int64_t page = 0; page < all.bytes(); page += kPageBytes) {
    pages.emplace(reinterpret_cast<const char*>(all.data() + page), kPageBytes);
  }
  EXPECT_EQ(pages.size(), static_cast<std::size_t>(all.bytes() / kPageBytes));
}

TEST(IoBench, ModesMoveWhatTheirNamesSay) {
  for (const BenchMode mode : {BenchMode::read, BenchMode::write, BenchMode::mixed}) {
    const auto storage = io::make_memory_storage(kBlocks * kBlock);
    IoBench bench(*storage, small_bench(Checksums::on));
    bench.fill();
    const io::StorageTraffic before = storage->traffic();
    const BenchCell cell = bench.measure(mode, kBlock, 4, 0.01);
    const io::StorageTraffic after = storage->traffic();
    const std::int64_t read = after.read_bytes - before.read_bytes;
    const std::int64_t written = after.written_bytes - before.written_bytes;
    EXPECT_GE(read + written, kBlock);
    if (mode == BenchMode::read) {
      EXPECT_EQ(written, 0);
    }
    if (mode == BenchMode::write) {
      EXPECT_EQ(read, 0);
    }
    if (mode == BenchMode::mixed) {
      EXPECT_LE(std::abs(read - written), kBlock);
    }
    EXPECT_EQ(cell.mode, mode);
    EXPECT_EQ(cell.depth, 4);
    EXPECT_GT(cell.bytes_per_s, 0);
    EXPECT_GT(cell.latency.p50_us, 0);
    EXPECT_GE(cell.latency.p99_us, cell.latency.p50_us);
  }
}

// Overwrites one block behind the back of the benchmark, with bytes it did not write.
TEST(IoBench, BytesThatAreNotThoseWrittenEndTheMeasurement) {
  for (const Checksums checksums : {Checksums::on, Checksums::off}) {
    const auto storage = io::make_memory_storage(kBlocks * kBlock);
    IoBench bench(*storage, small_bench(checksums));
    bench.fill();
    Budget budget("test", kBlock);
    const AlignedBuffer zeros(budget, "zeros", kBlock);
    io::IoGroup group;
    storage->write(0, zeros.span(), group);
    group.wait();
    const auto read = [&] { bench.measure(BenchMode::read, kBlock, 2, 0.05); };
    if (checksums == Checksums::on) {
      EXPECT_PRED2(mentions, error_text<IoError>(read), "offset 0, 65536 bytes");
    } else {
      EXPECT_NO_THROW(read());
    }
  }
}

Options small_run(const std::string& directory) {
  Options options;
  options.nvme = directory;
  options.blocks = {"64KiB", "256KiB"};
  options.depths = {"1", "4"};
  options.file_size = 4 * kMiB;
  options.cell_seconds = 0.02;
  return options;
}

TEST(BenchIo, MeasuresTheGridAndLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  Options options = small_run(folder.path());
  options.json = true;
  check_bench_io_options(options);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_bench_io(options), 0);
  const auto json = nlohmann::json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["cells"].size(), 12u);  // 3 modes, 2 blocks, 2 depths
  EXPECT_GT(json["checksum_bytes_per_s"], 0);
  EXPECT_EQ(json["checksums"], true);
  EXPECT_TRUE(json["options"].contains("chunk-size"));
  for (const auto& cell : json["cells"]) EXPECT_GT(cell["bytes_per_s"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchIo, PrintsATableAndTheOptionsToUse) {
  const test::TemporaryFolder folder;
  Options options = small_run(folder.path());
  options.modes = {"read"};
  options.checksums = false;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_bench_io(options), 0);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_PRED2(mentions, text, "checksums  off\n");
  EXPECT_PRED2(mentions, text, "CPU s/GB\nread ");
  EXPECT_PRED2(mentions, text, "chunk-size = 1MiB\n");  // the blocks of a checksum
}

TEST(BenchIo, DirectoriesThatCannotBeUsedAreRefused) {
  const test::TemporaryFolder folder;
  Options options = small_run(folder.path("absent"));
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { run_bench_io(options); }),
               folder.path("absent"));
}

TEST(BenchIo, OptionsThatMakeNoSenseAreNamed) {
  const auto refusal = [](auto change) {
    Options options = small_run("/tmp");
    change(options);
    return error_text<ConfigError>([&] { check_bench_io_options(options); });
  };
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.nvme = ""; }), "--nvme is missing");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.blocks = {"1000"}; }), "--blocks: 1000");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.blocks = {}; }), "--blocks is empty");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.blocks = {"8KiB", "12KiB"}; }), "12 KiB");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.depths = {"0"}; }), "--depths: '0'");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.depths = {"65"}; }), "1 to 64");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.modes = {"both"}; }), "--modes: 'both'");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.cell_seconds = 0; }), "--cell-seconds");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.io_timeout = 0; }), "--io-timeout");
  EXPECT_PRED2(mentions, refusal([](Options& o) { o.file_size = kMiB; }), "--file-size 1 MiB");
}

}  // namespace
}  // namespace strata::engine
