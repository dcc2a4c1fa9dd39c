// commit_benchmark DIR PAIRS: steps that are committed, each of them, beside steps of a run without
// checkpoints and of one without a run folder, all state on NVMe, in turn (scripts/
// bench_checkpoints). Exit status 1 when committed steps take more than 1.03 times as long.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/engine_run.h"

namespace strata::engine {
namespace {

constexpr double kRatioMax = 1.03;
constexpr int kWarmUpSteps = 2;  // the second has the first deferred update in it

// 76 million parameters, and so few tokens that a step is its transfers: 2 GB of them.
Options options_in(const std::string& directory, const std::string& text) {
  Options options;
  options.model = "gpt2:layers=6,hidden=1024,heads=16,context=64,vocab=256";
  options.data = text;
  options.nvme = directory;
  options.place = "all=nvme";
  options.activations = "device";
  options.global_batch = 1;
  options.matmul_dtype = "bf16";
  options.device_memory = kGiB;
  options.host_memory = kGiB;
  return options;
}

// A run, and the seconds of each of its steps.
class TimedRun {
 public:
  TimedRun(std::string name, Options options, const std::string& folder,
           std::optional<CheckpointInterval> interval)
      : name_(std::move(name)), run_(durable(std::move(options), folder, interval), kBlock) {
    for (int i = 0; i < kWarmUpSteps; ++i) run();
    seconds_.clear();
    written_before_ = written();
  }

  // A step, with the update or commit of the one before that is left to it.
  void step() { seconds_.push_back(run()); }

  const std::string& name() const { return name_; }
  const std::vector<double>& seconds() const { return seconds_; }
  double written_bytes_per_step() {
    return static_cast<double>(written() - written_before_) / static_cast<double>(seconds_.size());
  }

  static double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

 private:
  static constexpr std::int64_t kBlock = offload::kBlockElements;

  static Options durable(Options options, const std::string& folder,
                         std::optional<CheckpointInterval> interval) {
    if (interval) {
      options.run = folder;
      options.checkpoint_every = interval;
    }
    return options;
  }
  double run() {
    const auto begin = std::chrono::steady_clock::now();
    if (run_.steps_done() > 0 && run_.plan().durability == offload::Durability::commits) {
      run_.commit();
    }
    run_.step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::int64_t written() { return run_.session().volume()->traffic().written_bytes; }

  std::string name_;
  test::EngineRun run_;
  std::vector<double> seconds_;
  std::int64_t written_before_ = 0;
};

void print(TimedRun& run, double baseline_s) {
  fmt::print("{:<22} {:>9.3f} {:>9.3f} {:>15.0f}\n", run.name(), TimedRun::median_of(run.seconds()),
             TimedRun::median_of(run.seconds()) / baseline_s, run.written_bytes_per_step());
}

// Returns the median of committed steps over that of all others.
double compare(const std::string& title, const Options& options,
               const test::TemporaryFolder& folder, int rounds) {
  TimedRun committed("a commit every step", options, folder.path("commits"),
                     CheckpointInterval{1, 0});
  TimedRun marked("--checkpoint-every 0", options, folder.path("marks"), CheckpointInterval{});
  TimedRun plain("no run folder", options, "", std::nullopt);
  const std::array<TimedRun*, 3> runs = {&committed, &marked, &plain};
  for (int i = 0; i < rounds; ++i) {
    // Each is first and last as often as the others.
    for (std::size_t r = 0; r < runs.size(); ++r) {
      runs[(static_cast<std::size_t>(i) + r) % runs.size()]->step();
    }
  }
  std::vector<double> others = marked.seconds();
  others.insert(others.end(), plain.seconds().begin(), plain.seconds().end());
  const double baseline_s = TimedRun::median_of(others);
  fmt::print("{:<22} {:>9} {:>9} {:>15}\n", title, "step s", "ratio", "bytes written");
  for (TimedRun* run : runs) print(*run, baseline_s);
  std::fflush(stdout);
  return TimedRun::median_of(committed.seconds()) / baseline_s;
}

int run(const std::string& directory, int rounds) {
  double largest = 0;
  for (const double clip_norm : {1.0, 0.0}) {
    const test::TemporaryFolder folder(directory);
    test::write_text(folder.path("text.txt"), 200'000);
    Options options = options_in(folder.path(), folder.path("text.txt"));
    options.clip_norm = clip_norm;
    const char* title = clip_norm > 0 ? "updates deferred" : "updates in backward";
    largest = std::max(largest, compare(title, options, folder, rounds));
  }
  fmt::print("largest ratio {:.3f}; target {:.2f}\n", largest, kRatioMax);
  return largest <= kRatioMax ? 0 : 1;
}

}  // namespace
}  // namespace strata::engine

int main(int argc, char** argv) {
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (rounds < 1) {
    fmt::print(stderr, "usage: commit_benchmark DIR PAIRS\n");
    return 2;
  }
  try {
    return strata::engine::run(argv[1], rounds);
  } catch (const strata::Error& error) {
    fmt::print(stderr, "commit_benchmark: {}\n", error.what());
    return 2;
  }
}
