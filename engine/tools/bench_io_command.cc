#include "engine/tools/bench_io_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/options/option_help.h"
#include "engine/tools/bench_io.h"
#include "engine/tools/bench_table.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "offload/tier.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kFileBytes = 2 * kGiB;
constexpr std::int64_t kGranuleBytesMax = 256 * kKiB;
constexpr std::int64_t kHugePageBytes = 2 * kMiB;
constexpr std::int64_t kBlockBytesMax = kGiB;
constexpr int kDepthMax = 64;  // the engine's queue
// What --chunk-size is rounded up to: the blocks of a state in f32.
constexpr std::int64_t kChunkBytesUnit = offload::kBlockElements * 4;
constexpr double kCellSecondsMin = 0.01;
constexpr double kCellSecondsMax = 3600;

struct Grid {
  std::vector<std::int64_t> blocks;  // bytes
  std::vector<int> depths;
  std::vector<BenchMode> modes;
  std::int64_t file_bytes = 0;

  std::int64_t in_flight_bytes() const {
    return std::ranges::max(blocks) * std::ranges::max(depths);
  }
  std::int64_t memory_bytes() const {
    return round_up(in_flight_bytes() + std::ranges::max(blocks), kHugePageBytes);
  }
  // What one checksum covers: whole in every block measured. (The store's cover up to 1 MiB, at the
  // same cost of a byte.)
  std::int64_t granule_bytes() const {
    return std::min(std::ranges::min(blocks), kGranuleBytesMax);
  }
};

std::int64_t parse_block(const std::string& text) {
  std::int64_t bytes = 0;
  name_in_errors("blocks", [&] { bytes = parse_bytes(text); });
  if (bytes == 0 || bytes > kBlockBytesMax || bytes % kPageBytes != 0) {
    throw_error<ConfigError>("--blocks: {} is not a multiple of {} bytes, up to {}", text,
                             kPageBytes, format_bytes(kBlockBytesMax));
  }
  return bytes;
}

int parse_depth(const std::string& text) {
  int depth = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, depth);
  if (error != std::errc() || stop != end || depth < 1 || depth > kDepthMax) {
    throw_error<ConfigError>("--depths: '{}' is not a number from 1 to {}", text, kDepthMax);
  }
  return depth;
}

template <typename Parse>
auto parse_list(const char* option, const std::vector<std::string>& texts, const Parse& parse) {
  if (texts.empty()) throw_error<ConfigError>("--{} is empty: there is nothing to measure", option);
  std::vector<decltype(parse(texts.front()))> values;
  for (const std::string& text : texts) values.push_back(parse(text));
  return values;
}

Grid make_grid(const Options& options) {
  Grid grid{parse_list("blocks", options.blocks, parse_block),
            parse_list("depths", options.depths, parse_depth),
            parse_list("modes", options.modes, parse_bench_mode),
            options.file_size.value_or(kFileBytes)};
  for (const std::int64_t block : grid.blocks) {
    if (block % grid.granule_bytes() == 0) continue;
    throw_error<ConfigError>("--blocks: {} is not a multiple of {}, which checksums need",
                             format_bytes(block), format_bytes(grid.granule_bytes()));
  }
  const std::int64_t needed_bytes = 2 * grid.in_flight_bytes();
  if (grid.file_bytes < needed_bytes) {
    throw_error<ConfigError>(
        "--file-size {} is too small: it must be twice the largest block times the largest depth, "
        "{}",
        format_bytes(grid.file_bytes), format_bytes(needed_bytes));
  }
  if (grid.memory_bytes() > available_memory_bytes() / 2) {
    throw_error<ConfigError>(
        "--blocks and --depths: the largest need {} of memory, more than half of what is free",
        format_bytes(grid.memory_bytes()));
  }
  return grid;
}

std::unique_ptr<io::Volume> open_volume(const Options& options, const Grid& grid) {
  io::VolumeOptions volume_options;
  volume_options.directories = io::parse_directories(options.nvme);
  volume_options.capacity_bytes = grid.file_bytes;
  volume_options.engine.kind = io::choose_engine(io::parse_engine(options.io_engine)).kind;
  volume_options.engine.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.io_timeout * 1000));
  // Its files have no names: nothing is left behind, even by a signal that nobody can catch.
  return io::create_volume(volume_options, nullptr);
}

std::string heading(const Options& options, const io::Volume& volume, const Grid& grid,
                    double checksum_bytes_per_s) {
  const std::string checksums =
      options.checksums ? fmt::format("on: XXH3 at {:.1f} GB/s of a core, {:.3f} CPU s/GB",
                                      checksum_bytes_per_s * 1e-9, 1e9 / checksum_bytes_per_s)
                        : std::string("off");
  return fmt::format("storage    {}\nmeasured   {} of random data\nchecksums  {}\n\n",
                     volume.description(), format_bytes(grid.file_bytes), checksums);
}

// What a run should be given for what was measured, where that is not the default.
Options options_to_use(const Options& options, const io::Volume& volume, const BenchCell& best) {
  constexpr double kMegabyte = 1e6;
  Options use;
  use.chunk_size = round_up(best.block_bytes, kChunkBytesUnit);
  use.io_engine = options.io_engine;
  use.nvme = options.nvme;
  if (volume.devices() == 1) return use;
  auto directories = io::parse_directories(options.nvme);
  for (std::size_t i = 0; i < directories.size(); ++i) {
    const auto rate = static_cast<double>(volume.share(static_cast<int>(i)).weight);
    directories[i].bytes_per_second = std::ceil(rate / kMegabyte) * kMegabyte;
  }
  use.nvme = io::format_directories(directories);
  return use;
}

std::vector<BenchCell> measure_grid(IoBench& bench, const Options& options, const Grid& grid) {
  std::vector<BenchCell> cells;
  for (const BenchMode mode : grid.modes) {
    for (const std::int64_t block_bytes : grid.blocks) {
      for (const int depth : grid.depths) {
        cells.push_back(bench.measure(mode, block_bytes, depth, options.cell_seconds));
        if (options.json) continue;
        fmt::print("{}", bench_table_row(cells.back()));
        std::fflush(stdout);
      }
    }
  }
  return cells;
}

}  // namespace

void check_bench_io_options(const Options& options) {
  if (options.nvme.empty()) {
    throw ConfigError("--nvme is missing: the directories to measure, one on each drive");
  }
  if (!(options.cell_seconds >= kCellSecondsMin && options.cell_seconds <= kCellSecondsMax)) {
    throw_error<ConfigError>("--cell-seconds is {}, but must be from {} to {}",
                             options.cell_seconds, kCellSecondsMin, kCellSecondsMax);
  }
  check_nvme(options);
  check_timeouts(options);
  make_grid(options);
}

int run_bench_io(const Options& options) {
  const Grid grid = make_grid(options);
  std::unique_ptr<io::Volume> volume;
  name_in_errors("nvme", [&] { volume = open_volume(options, grid); });
  IoBench bench(*volume, {options.checksums ? Checksums::on : Checksums::off, grid.granule_bytes(),
                          grid.memory_bytes()});
  const double checksum_bytes_per_s = bench.checksum_bytes_per_s();
  if (!options.json) {
    fmt::print("{}{}", heading(options, *volume, grid, checksum_bytes_per_s), bench_table_header());
  }
  bench.fill();
  const std::vector<BenchCell> cells = measure_grid(bench, options, grid);
  const Options use = options_to_use(options, *volume, recommended_cell(cells));
  if (options.json) {
    const nlohmann::json json = {
        {"storage", volume->description()},
        {"file_bytes", grid.file_bytes},
        {"checksums", options.checksums},
        {"checksum_bytes_per_s", checksum_bytes_per_s},
        {"cells", cells_json(cells)},
        {"options",
         {{"chunk-size", *use.chunk_size}, {"nvme", use.nvme}, {"io-engine", use.io_engine}}}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print(
        "\n{}\nfor a run, on its command line or in its config file:\n{}"
        "(depth is no option: a run has in flight what its buffers hold, up to {} requests for "
        "each "
        "directory)\n",
        knee_lines(cells), options_summary(use), kDepthMax);
  }
  return 0;
}

}  // namespace strata::engine
