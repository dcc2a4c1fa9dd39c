#include "engine/tools/bench_optimizer_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/tools/bench_optimizer.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kElementsMin = std::int64_t{1} << 16;
constexpr std::int64_t kElementsInCache = std::int64_t{1} << 25;  // 335 MB with moments in int8
constexpr int kPairs = 11;

std::vector<OptimizerVariant> variants_of(const Options& options) {
  if (options.variants.empty()) {
    const auto all = optimizer_variants();
    return {all.begin(), all.end()};
  }
  std::vector<OptimizerVariant> variants;
  for (const std::string& name : options.variants) {
    variants.push_back(parse_optimizer_variant(name));
  }
  return variants;
}

// --threads, or 1 and all.
std::vector<int> thread_counts(const Options& options, const CpuShare& share) {
  if (options.threads) return {*options.threads};
  return share.threads == 1 ? std::vector{1} : std::vector{1, share.threads};
}

}  // namespace

void check_bench_optimizer_options(const Options& options) {
  variants_of(options);
  parse_isa(options.isa);
  if (options.threads && *options.threads < 1) {
    throw_error<ConfigError>("--threads is {}, but must be at least 1", *options.threads);
  }
  if (options.elements < kElementsMin) {
    throw_error<ConfigError>("--elements is {}, but must be at least {}, one tile",
                             options.elements, kElementsMin);
  }
  const std::int64_t elements_max = available_memory_bytes() / OptimizerBench::kElementBytesMax;
  if (options.elements > elements_max) {
    throw_error<ConfigError>("--elements is {}, but the memory that is free is enough for {}",
                             options.elements, elements_max);
  }
}

int run_bench_optimizer(const Options& options) {
  const Isa isa = parse_isa(options.isa);
  const CpuShare share = cpu_share(0, 1);
  if (options.elements < kElementsInCache) {
    fmt::print(stderr,
               "strata: caches may hold much of this state; for memory, --elements {} or more\n",
               kElementsInCache);
  }
  if (!options.json) {
    fmt::print("elements   {}, in tiles of 65,536 as training has them\nisa        {}\n\n{}",
               with_separators(options.elements), name_of(isa), optimizer_bench_header());
  }
  OptimizerBench bench(options.elements, isa);
  std::vector<OptimizerBenchCell> cells;
  for (const int threads : thread_counts(options, share)) {
    WorkerSet workers(threads, share.cpus);
    for (const OptimizerVariant& variant : variants_of(options)) {
      cells.push_back(bench.measure(variant, workers, kPairs));
      if (options.json) continue;
      fmt::print("{}", optimizer_bench_row(cells.back()));
      std::fflush(stdout);
    }
  }
  if (options.json) {
    const nlohmann::json json = {{"elements", options.elements},
                                 {"isa", name_of(isa)},
                                 {"cells", optimizer_bench_json(cells)}};
    fmt::print("{}\n", json_text(json));
  }
  return 0;
}

}  // namespace strata::engine
