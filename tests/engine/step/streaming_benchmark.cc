// streaming_benchmark DIR PAIRS: the streaming optimizer with all state on NVMe beside the same
// reads and writes without arithmetic, in turn (scripts/bench_streaming). Exit status 1 when the
// update takes more than 1.05 times as long in any format of the moments.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "tests/engine/step/streaming_machine.h"

namespace strata::engine {
namespace {

constexpr double kRatioMax = 1.05;
constexpr std::int64_t kUnitElements = 1 << 22;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns the ratio of the medians.
double compare(const std::string& directory, int pairs, MomentFormat moments) {
  StreamingMachine machine(streaming_input(kUnitElements, offload::kBlockElements, moments),
                           directory, cpu_share(0, 1).threads);
  machine.update();
  machine.move();
  std::vector<double> updates;
  std::vector<double> moves;
  for (int i = 0; i < pairs; ++i) {
    updates.push_back(machine.update());
    moves.push_back(machine.move());
  }
  const offload::Traffic moved = machine.moved();
  const double bytes = static_cast<double>(moved.bytes(offload::Link::nvme_read) +
                                           moved.bytes(offload::Link::nvme_written));
  const double ratio = median(updates) / median(moves);
  fmt::print("{:<8} {:>10.3f} {:>10.3f} {:>8.2f} {:>8.3f}\n", name_of(moments), median(updates),
             median(moves), bytes / median(moves) / 1e9, ratio);
  std::fflush(stdout);
  return ratio;
}

int run(const std::string& directory, int pairs) {
  fmt::print("{:<8} {:>10} {:>10} {:>8} {:>8}\n", "moments", "update s", "I/O s", "GB/s", "ratio");
  double largest = 0;
  for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
    largest = std::max(largest, compare(directory, pairs, moments));
  }
  return largest <= kRatioMax ? 0 : 1;
}

}  // namespace
}  // namespace strata::engine

int main(int argc, char** argv) {
  const int pairs = argc == 3 ? std::atoi(argv[2]) : 0;
  if (pairs < 1) {
    fmt::print(stderr, "usage: streaming_benchmark DIR PAIRS\n");
    return 2;
  }
  try {
    return strata::engine::run(argv[1], pairs);
  } catch (const strata::Error& error) {
    fmt::print(stderr, "streaming_benchmark: {}\n", error.what());
    return 2;
  }
}
