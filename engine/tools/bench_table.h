// What `strata bench io` makes of its measurements: latency figures, the knee, the table, JSON.
// Pure functions.
//
// Vocabulary: a *cell* is one measurement: a mode at one block size and one depth. The *knee* of a
// mode is the cell with the fewest bytes in flight (block × depth) whose throughput is within 2 %
// of the mode's best: more in flight only costs memory and latency.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace strata::engine {

enum class BenchMode : std::uint8_t { read, write, mixed };  // mixed: every other request a write

const char* name_of(BenchMode mode);
// Throws ConfigError.
BenchMode parse_bench_mode(const std::string& text);

struct LatencyFigures {
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
};

// Percentiles by nearest rank: the smallest latency that at least that share does not exceed.
// `latencies_ns` is not empty.
LatencyFigures latency_figures(std::vector<std::int64_t> latencies_ns);

struct BenchCell {
  BenchMode mode = BenchMode::read;
  std::int64_t block_bytes = 0;
  int depth = 0;  // blocks in flight
  double bytes_per_s = 0;
  LatencyFigures latency;
  double cpu_s_per_gb = 0;  // user and system time of the process, per 10^9 bytes

  std::int64_t bytes_in_flight() const { return block_bytes * depth; }
};

// Null when no cell has the mode.
const BenchCell* find_knee(std::span<const BenchCell> cells, BenchMode mode);

// The cell to run with: the knee of mixed, which is what the optimizer does, where it was measured;
// otherwise of the last mode. `cells` is not empty.
const BenchCell& recommended_cell(std::span<const BenchCell> cells);

std::string bench_table_header();
std::string bench_table_row(const BenchCell& cell);
// A line for each mode's knee.
std::string knee_lines(std::span<const BenchCell> cells);
nlohmann::json cells_json(std::span<const BenchCell> cells);

}  // namespace strata::engine
