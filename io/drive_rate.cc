#include "io/drive_rate.h"

#include <algorithm>
#include <memory>

#include "io/drive_space.h"
#include "io/engine_storage.h"
#include "io/scratch_file.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"

namespace strata::io {
namespace {

constexpr std::int64_t kFileBytesMax = 128 * kMiB;
constexpr std::int64_t kWaveBytesMin = kMiB;
constexpr std::int64_t kWaveBytesMax = 8 * kMiB;
constexpr std::chrono::milliseconds kTimeMax{600};  // of writing, and of reading
// What a drive does at first is not counted where it goes on for longer: a limit on bandwidth (a
// control group's, a virtual drive's) lets a burst pass before it holds.
constexpr std::chrono::milliseconds kBurstTime{100};

struct Passage {
  std::int64_t bytes = 0;  // all of them
  double bytes_per_second = 0;
};

// In waves that grow, so that a slow drive is not waited for long.
Passage move(Storage& storage, Operation operation, AlignedSpan buffer, std::int64_t bytes_max) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto counted_from = start;
  std::int64_t not_counted_bytes = 0;
  Passage passage;
  IoGroup group;
  std::int64_t wave_bytes = kWaveBytesMin;
  while (passage.bytes < bytes_max && Clock::now() - start < kTimeMax) {
    if (counted_from == start && Clock::now() - start > kBurstTime) {
      counted_from = Clock::now();
      not_counted_bytes = passage.bytes;
    }
    const AlignedSpan span = buffer.sub(0, std::min(wave_bytes, bytes_max - passage.bytes));
    if (operation == Operation::read) {
      storage.read(passage.bytes, span, group);
    } else {
      storage.write(passage.bytes, span, group);
    }
    group.wait();
    passage.bytes += span.bytes();
    wave_bytes = std::min(2 * wave_bytes, kWaveBytesMax);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - counted_from).count();
  passage.bytes_per_second = static_cast<double>(passage.bytes - not_counted_bytes) / seconds;
  return passage;
}

}  // namespace

double measure_drive_rate(const std::string& directory, const EngineOptions& options) {
  const DirectFile file = open_scratch_file(directory);
  const std::int64_t bytes =
      std::min(kFileBytesMax, free_bytes_of(file) / 4 / kWaveBytesMin * kWaveBytesMin);
  if (bytes == 0) return 0;
  preallocate(file, bytes);
  const auto storage = open_engine_storage(file, bytes, options, nullptr);
  Budget budget("drive measurement", kWaveBytesMax);
  const AlignedBuffer buffer(budget, "waves", kWaveBytesMax);
  // What no drive can compress.
  std::generate_n(buffer.as<std::uint64_t>(), buffer.bytes() / 8, SplitMix64());
  const Passage written = move(*storage, Operation::write, buffer.span(), bytes);
  const Passage read = move(*storage, Operation::read, buffer.span(), written.bytes);
  return 2 / (1 / written.bytes_per_second + 1 / read.bytes_per_second);
}

}  // namespace strata::io
