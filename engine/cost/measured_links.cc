#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "engine/cost/measured_rates.h"
#include "engine/plan/write_forecast.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

namespace {

// What this process has used of the cores, for itself and in the kernel.
double processor_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Pieces of the storage, of which a few are in flight at a time, each from its own part of a
// buffer. The lower places are written before the upper ones, which are written while the lower
// ones are read.
class DriveMeasurement {
 public:
  DriveMeasurement(io::Storage& storage, const PinnedBuffer& buffer, std::int64_t in_flight,
                   std::int64_t piece_bytes)
      : storage_(storage),
        buffer_(buffer),
        piece_bytes_(piece_bytes),
        pieces_(measuring_bytes(storage.capacity_bytes()) / piece_bytes),
        places_(std::min(storage.capacity_bytes() / piece_bytes, pieces_)),
        lower_((places_ + 1) / 2),
        groups_(static_cast<std::size_t>(in_flight)) {}

  DriveRates run() {
    DriveRates rates;
    const double begin_s = processor_s();
    const std::int64_t apart = (pieces_ + 1) / 2;
    rates.written_bytes_per_s = bytes_per_s(apart, [&](std::int64_t i) { write(i, i % lower_); });
    const std::int64_t upper = places_ - lower_;
    const std::int64_t mixed = upper > 0 && groups_.size() > 1 ? pieces_ - apart : 0;
    if (mixed > 0) {
      rates.mixed_bytes_per_s = bytes_per_s(2 * mixed, [&](std::int64_t i) {
        i % 2 == 0 ? read(i, i / 2 % lower_) : write(i, lower_ + i / 2 % upper);
      });
    }
    const std::int64_t readable = mixed > 0 ? places_ : lower_;
    rates.read_bytes_per_s = bytes_per_s(pieces_, [&](std::int64_t i) { read(i, i % readable); });
    rates.core_s_per_byte = (processor_s() - begin_s) /
                            static_cast<double>((apart + 2 * mixed + pieces_) * piece_bytes_);
    return rates;
  }

 private:
  template <typename Transfer>
  double bytes_per_s(std::int64_t count, const Transfer& transfer) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < count; ++i) {
      group(i).wait();
      transfer(i);
    }
    for (io::IoGroup& group : groups_) group.wait();
    return static_cast<double>(count * piece_bytes_) / watch.seconds();
  }
  void write(std::int64_t i, std::int64_t place) {
    storage_.write(place * piece_bytes_, memory(i), group(i));
  }
  void read(std::int64_t i, std::int64_t place) {
    storage_.read(place * piece_bytes_, memory(i), group(i));
  }
  std::int64_t slot(std::int64_t i) const { return i % std::ssize(groups_); }
  io::IoGroup& group(std::int64_t i) { return groups_[static_cast<std::size_t>(slot(i))]; }
  AlignedSpan memory(std::int64_t i) const {
    return buffer_.span(slot(i) * piece_bytes_, piece_bytes_);
  }

  io::Storage& storage_;
  const PinnedBuffer& buffer_;
  std::int64_t piece_bytes_;
  std::int64_t pieces_;  // to write
  std::int64_t places_;  // that they go to
  std::int64_t lower_;   // of those
  std::vector<io::IoGroup> groups_;
};

}  // namespace

DriveRates measure_drives(const RunSetup& setup, Device& device, io::Storage& storage) {
  const std::int64_t capacity = storage.capacity_bytes();
  const std::int64_t in_flight =
      std::min<std::int64_t>(4 * storage.devices(), capacity / kPageBytes);  // all different places
  const std::int64_t room = room_in(setup, offload::Tier::host, device);
  if (in_flight == 0) return {};
  const std::int64_t piece =
      std::min({kMiB, room / in_flight, capacity / in_flight}) / kPageBytes * kPageBytes;
  if (piece <= 0) return {};
  const PinnedBuffer buffer = device.allocate_pinned("measurement", in_flight * piece);
  std::memset(buffer.data(), 0x5A, static_cast<std::size_t>(buffer.bytes()));
  return DriveMeasurement(storage, buffer, in_flight, piece).run();
}

NetworkRates measure_network(const RunSetup& setup, Device& device, comm::Communicator& comm) {
  constexpr std::int64_t kShardBytesMax = 4 * kMiB;
  constexpr int kRepeats = 3;  // the first one warms up
  const std::int64_t ranks = comm.world_size();
  if (ranks == 1) return {};
  const auto of_all = [&](auto mine) {
    std::vector<decltype(mine)> all(static_cast<std::size_t>(ranks));
    comm.all_gather_host(std::as_bytes(std::span(&mine, 1)),
                         std::as_writable_bytes(std::span(all)));
    return all;
  };
  const std::int64_t room = room_in(setup, offload::Tier::device, device);
  const std::int64_t shard =
      std::min(kShardBytesMax, std::ranges::min(of_all(room)) / ranks / kPageBytes * kPageBytes);
  if (shard <= 0) return {};
  const DeviceBuffer memory = device.allocate("measurement", ranks * shard);
  const std::unique_ptr<Stream> stream = device.make_stream("measurement");
  stream->fill_zero(memory.data(), memory.bytes());
  stream->synchronize();
  double best_s = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    comm.barrier();
    const Stopwatch watch;
    comm.all_gather(*stream, memory.data(), shard);
    stream->synchronize();
    const double slowest_s = std::ranges::max(of_all(watch.seconds()));
    if (repeat <= 1 || slowest_s < best_s) best_s = slowest_s;
  }
  return {static_cast<double>((ranks - 1) * shard) / best_s};
}

}  // namespace strata::engine
