#include "engine/tools/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr double kNearBest = 0.98;
constexpr std::array kModes = {BenchMode::read, BenchMode::write, BenchMode::mixed};

double fastest(std::span<const BenchCell> cells, BenchMode mode) {
  double best = 0;
  for (const BenchCell& cell : cells) {
    if (cell.mode == mode) best = std::max(best, cell.bytes_per_s);
  }
  return best;
}

}  // namespace

const char* name_of(BenchMode mode) {
  switch (mode) {
    case BenchMode::read:
      return "read";
    case BenchMode::write:
      return "write";
    case BenchMode::mixed:
      return "mixed";
  }
  return "";
}

BenchMode parse_bench_mode(const std::string& text) {
  for (const BenchMode mode : kModes) {
    if (text == name_of(mode)) return mode;
  }
  throw_error<ConfigError>("--modes: '{}' is not one of read, write, mixed", text);
}

LatencyFigures latency_figures(std::vector<std::int64_t> latencies_ns) {
  STRATA_CHECK(!latencies_ns.empty());
  std::ranges::sort(latencies_ns);
  const auto count = static_cast<double>(latencies_ns.size());
  const auto percentile_us = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * count));
    return static_cast<double>(latencies_ns[rank - 1]) * 1e-3;
  };
  const double sum_ns = std::accumulate(latencies_ns.begin(), latencies_ns.end(), 0.0);
  return {sum_ns / count * 1e-3, percentile_us(0.50), percentile_us(0.99)};
}

const BenchCell* find_knee(std::span<const BenchCell> cells, BenchMode mode) {
  const double enough = kNearBest * fastest(cells, mode);
  const BenchCell* knee = nullptr;
  for (const BenchCell& cell : cells) {
    if (cell.mode != mode || cell.bytes_per_s < enough) continue;
    const bool smaller = knee == nullptr || cell.bytes_in_flight() < knee->bytes_in_flight();
    const bool faster = knee != nullptr && cell.bytes_in_flight() == knee->bytes_in_flight() &&
                        cell.bytes_per_s > knee->bytes_per_s;
    if (smaller || faster) knee = &cell;
  }
  return knee;
}

const BenchCell& recommended_cell(std::span<const BenchCell> cells) {
  STRATA_CHECK(!cells.empty());
  const BenchCell* mixed = find_knee(cells, BenchMode::mixed);
  return mixed != nullptr ? *mixed : *find_knee(cells, cells.back().mode);
}

std::string bench_table_header() {
  return fmt::format("{:<6} {:>8} {:>6} {:>8} {:>10} {:>10} {:>10} {:>9}\n", "mode", "block",
                     "depth", "GB/s", "mean us", "p50 us", "p99 us", "CPU s/GB");
}

std::string bench_table_row(const BenchCell& cell) {
  return fmt::format("{:<6} {:>8} {:>6} {:>8.3f} {:>10.0f} {:>10.0f} {:>10.0f} {:>9.3f}\n",
                     name_of(cell.mode), format_bytes(cell.block_bytes), cell.depth,
                     cell.bytes_per_s * 1e-9, cell.latency.mean_us, cell.latency.p50_us,
                     cell.latency.p99_us, cell.cpu_s_per_gb);
}

std::string knee_lines(std::span<const BenchCell> cells) {
  std::string out;
  for (const BenchMode mode : kModes) {
    const BenchCell* knee = find_knee(cells, mode);
    if (knee == nullptr) continue;
    out += fmt::format("{:<6} {:.2f} GB/s with {} x {} in flight; the best is {:.2f} GB/s\n",
                       name_of(mode), knee->bytes_per_s * 1e-9, knee->depth,
                       format_bytes(knee->block_bytes), fastest(cells, mode) * 1e-9);
  }
  return out;
}

nlohmann::json cells_json(std::span<const BenchCell> cells) {
  nlohmann::json json = nlohmann::json::array();
  for (const BenchCell& cell : cells) {
    json.push_back({{"mode", name_of(cell.mode)},
                    {"block_bytes", cell.block_bytes},
                    {"depth", cell.depth},
                    {"bytes_per_s", cell.bytes_per_s},
                    {"latency_mean_us", cell.latency.mean_us},
                    {"latency_p50_us", cell.latency.p50_us},
                    {"latency_p99_us", cell.latency.p99_us},
                    {"cpu_s_per_gb", cell.cpu_s_per_gb},
                    {"knee", find_knee(cells, cell.mode) == &cell}});
  }
  return json;
}

}  // namespace strata::engine
