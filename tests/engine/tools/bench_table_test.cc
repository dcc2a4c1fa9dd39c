#include "engine/tools/bench_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

BenchCell cell(BenchMode mode, std::int64_t block_bytes, int depth, double gb_per_s) {
  return {.mode = mode,
          .block_bytes = block_bytes,
          .depth = depth,
          .bytes_per_s = gb_per_s * 1e9,
          .latency = {},
          .cpu_s_per_gb = 0};
}

TEST(LatencyFigures, PercentilesAreByNearestRank) {
  std::vector<std::int64_t> latencies_ns;
  for (std::int64_t i = 200; i >= 1; --i) latencies_ns.push_back(i * 1000);
  const LatencyFigures figures = latency_figures(latencies_ns);
  EXPECT_DOUBLE_EQ(figures.mean_us, 100.5);
  EXPECT_DOUBLE_EQ(figures.p50_us, 100);  // the 100th of 200
  EXPECT_DOUBLE_EQ(figures.p99_us, 198);  // the 198th
  const LatencyFigures one = latency_figures({7000});
  EXPECT_DOUBLE_EQ(one.p50_us, 7);
  EXPECT_DOUBLE_EQ(one.p99_us, 7);
}

TEST(FindKnee, IsTheFewestBytesInFlightWithinTwoPercentOfTheBest) {
  const std::vector<BenchCell> cells = {
      cell(BenchMode::read, 64 * kKiB, 1, 0.5),  cell(BenchMode::read, 256 * kKiB, 4, 0.979),
      cell(BenchMode::read, kMiB, 2, 0.981),     cell(BenchMode::read, kMiB, 4, 1.0),
      cell(BenchMode::read, 4 * kMiB, 4, 0.995), cell(BenchMode::write, 64 * kKiB, 1, 9.0),
  };
  EXPECT_EQ(find_knee(cells, BenchMode::read), &cells[2]);
  EXPECT_EQ(find_knee(cells, BenchMode::write), &cells[5]);
  EXPECT_EQ(find_knee(cells, BenchMode::mixed), nullptr);
}

TEST(FindKnee, OfTwoWithTheSameBytesInFlightIsTheFaster) {
  const std::vector<BenchCell> cells = {cell(BenchMode::read, kMiB, 4, 1.00),
                                        cell(BenchMode::read, 4 * kMiB, 1, 1.01),
                                        cell(BenchMode::read, 2 * kMiB, 2, 1.00)};
  EXPECT_EQ(find_knee(cells, BenchMode::read), &cells[1]);
}

TEST(RecommendedCell, IsTheKneeOfMixedWhereThatWasMeasured) {
  const std::vector<BenchCell> cells = {cell(BenchMode::mixed, kMiB, 4, 1.0),
                                        cell(BenchMode::mixed, 4 * kMiB, 4, 1.01),
                                        cell(BenchMode::read, 64 * kKiB, 1, 2.0)};
  EXPECT_EQ(&recommended_cell(cells), &cells[0]);
  EXPECT_EQ(&recommended_cell(std::span(cells).subspan(2)), &cells[2]);
}

TEST(BenchTable, RowsStandUnderTheirHeadings) {
  const BenchCell row = {.mode = BenchMode::mixed,
                         .block_bytes = 256 * kKiB,
                         .depth = 16,
                         .bytes_per_s = 1.25e9,
                         .latency = {3400, 3300, 9999},
                         .cpu_s_per_gb = 0.05};
  const std::string header = bench_table_header();
  const std::string text = bench_table_row(row);
  EXPECT_EQ(header.size(), text.size());
  const auto under = [&](const std::string& heading, const std::string& value) {
    EXPECT_EQ(header.find(heading) + heading.size(), text.find(value) + value.size()) << text;
  };
  under("block", "256 KiB");
  under("depth", "16");
  under("GB/s", "1.250");
  under("mean us", "3400");
  under("p99 us", "9999");
  under("CPU s/GB", "0.050");
}

TEST(BenchTable, JsonHasEveryCellAndMarksKnees) {
  const std::vector<BenchCell> cells = {cell(BenchMode::read, kMiB, 1, 1.0),
                                        cell(BenchMode::read, kMiB, 4, 1.5)};
  const nlohmann::json json = cells_json(cells);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["mode"], "read");
  EXPECT_EQ(json[0]["block_bytes"], 1048576);
  EXPECT_EQ(json[0]["knee"], false);
  EXPECT_EQ(json[1]["knee"], true);
  EXPECT_EQ(json[1]["bytes_per_s"], 1.5e9);
  EXPECT_PRED2(test::mentions, knee_lines(cells), "read   1.50 GB/s with 4 x 1 MiB in flight");
}

TEST(ParseBenchMode, ReadsWhatNameOfWrites) {
  for (const BenchMode mode : {BenchMode::read, BenchMode::write, BenchMode::mixed}) {
    EXPECT_EQ(parse_bench_mode(name_of(mode)), mode);
  }
  EXPECT_PRED2(test::mentions, test::error_text<ConfigError>([] { parse_bench_mode("both"); }),
               "--modes: 'both'");
}

}  // namespace
}  // namespace strata::engine
