#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <limits>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "engine/cost/measured_rates.h"
#include "engine/plan/write_forecast.h"
#include "kernels/base/bytes.h"
#include "offload/store/checksum.h"

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

// Work for all workers, each in its own cache.
class CoresWork {
 public:
  // So much that it takes about `seconds`.
  CoresWork(WorkerSet& workers, double seconds) : workers_(workers) {
    constexpr double kTrialSeconds = 5e-3;
    while (run() < kTrialSeconds) tiles_ *= 2;
    tiles_ = 1 + static_cast<std::int64_t>(static_cast<double>(tiles_) * seconds / run());
  }

  // Seconds that it takes, so many times.
  double run(int times = 1) const {
    const Stopwatch watch;
    workers_.parallel_for(times * tiles_, [](std::int64_t tile, int) {
      std::array<std::byte, kTileBytes> memory{};
      for (int repeat = 0; repeat < 4; ++repeat) {
        const std::uint64_t sum =
            store::checksum(memory.data(), kTileBytes, static_cast<std::uint64_t>(tile));
        std::memcpy(memory.data(), &sum, sizeof sum);
      }
    });
    return watch.seconds();
  }
  int threads() const { return workers_.threads(); }

 private:
  static constexpr std::size_t kTileBytes = 8 * kKiB;

  WorkerSet& workers_;
  std::int64_t tiles_ = 1;
};

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

  DriveRates run(WorkerSet& workers) {
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
    readable_ = mixed > 0 ? places_ : lower_;
    rates.read_bytes_per_s = bytes_per_s(
        2 * pieces_, [&](std::int64_t i) { read(i, i % readable_); }, kReadSecondsMax);
    const double own_s_per_byte = (processor_s() - begin_s) / transferred_bytes_;
    const Missed missed = missed_s_per_byte(workers, rates.read_bytes_per_s);
    rates.core_s_per_byte = std::max(own_s_per_byte, missed.median);
    rates.core_s_per_byte_least = std::max(own_s_per_byte, missed.least);
    return rates;
  }

 private:
  static constexpr double kReadSecondsMax = 0.3;  // before they count, and as long again
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  struct Missed {
    double least = 0;
    double median = 0;
  };
  // What I/O takes from cores that are all at work, in seconds of one of them per byte: by how much
  // the same work takes longer while reads go on beside it. Work goes on for a while after the
  // reads, for a host that limits a virtual machine's use of processors may only then have it pay
  // for them. Three times; and no more than the cores can do while nothing but reads goes on.
  Missed missed_s_per_byte(WorkerSet& workers, double read_bytes_per_s) {
    constexpr int kTimesBeside = 2;
    constexpr double kWorkSecondsMin = 0.005;
    constexpr double kWorkSecondsMax = 0.08;
    std::array<double, 3> missed{};
    // A few times what a step may read: with little state there is nothing that this could tell,
    // and runs start at once.
    const double read_s = 8 * static_cast<double>(storage_.capacity_bytes()) / read_bytes_per_s;
    const double work_s = std::min(kWorkSecondsMax, read_s / (kTimesBeside * missed.size()));
    if (work_s < kWorkSecondsMin) return {};
    const CoresWork work(workers, work_s);
    for (double& each : missed) {
      const double alone_s = work.run();
      const Beside beside = run_beside_reads(work, kTimesBeside);
      const double after_s = work.run();
      each = work.threads() * (beside.seconds + after_s - (kTimesBeside + 1) * alone_s) /
             beside.read_bytes;
    }
    std::ranges::sort(missed);
    const double most = work.threads() / read_bytes_per_s;
    return {std::min(missed[0], most), std::min(missed[1], most)};
  }

  struct Beside {
    double seconds;
    double read_bytes;  // within them
  };
  Beside run_beside_reads(const CoresWork& work, int times) {
    std::packaged_task<double(std::stop_token)> read_until([&](const std::stop_token& stop) {
      const Stopwatch watch;
      const double bytes = transfer_until(
          0, [&](std::int64_t i) { return i > 0 && stop.stop_requested(); },
          [&](std::int64_t i) { read(i, i % readable_); });
      return bytes / watch.seconds();  // some are still under way when the work is done
    });
    std::future<double> bytes_per_s = read_until.get_future();
    std::jthread reader(std::move(read_until));
    const double seconds = work.run(times);
    reader.request_stop();
    return {seconds, seconds * bytes_per_s.get()};
  }

  // Of the second half: a drive that is limited to a rate may be faster for a moment (Linux's
  // control groups for 0.1 s). A half that takes longer than `seconds_max` ends there.
  template <typename Transfer>
  double bytes_per_s(std::int64_t count, const Transfer& transfer, double seconds_max = kNoLimit) {
    const auto transfer_part = [&](std::int64_t first, std::int64_t end) {
      const Stopwatch watch;
      const auto enough = [&](std::int64_t i) {
        return i == end || (i > first && watch.seconds() > seconds_max);
      };
      const double bytes = transfer_until(first, enough, transfer);
      return bytes / watch.seconds();
    };
    const std::int64_t half = count / 2;
    transfer_part(0, half);
    return transfer_part(half, count);
  }
  // transfer(first), transfer(first + 1), …, each once the one before it in its group is complete,
  // to where it is enough. Bytes.
  template <typename Enough, typename Transfer>
  double transfer_until(std::int64_t first, const Enough& enough, const Transfer& transfer) {
    std::int64_t i = first;
    for (; !enough(i); ++i) {
      group(i).wait();
      transfer(i);
    }
    for (io::IoGroup& group : groups_) group.wait();
    const auto bytes = static_cast<double>((i - first) * piece_bytes_);
    transferred_bytes_ += bytes;
    return bytes;
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
  std::int64_t pieces_;        // to write
  std::int64_t places_;        // that they go to
  std::int64_t lower_;         // of those
  std::int64_t readable_ = 0;  // places that were written
  double transferred_bytes_ = 0;
  std::vector<io::IoGroup> groups_;
};

}  // namespace

DriveRates measure_drives(const RunSetup& setup, Device& device, WorkerSet& workers,
                          io::Storage& storage) {
  const std::int64_t capacity = storage.capacity_bytes();
  const std::int64_t pages = capacity / kPageBytes;
  if (pages == 0) return {};
  // All in different places, in either half of them.
  const std::int64_t in_flight = std::clamp<std::int64_t>(pages / 2, 1, 4 * storage.devices());
  const std::int64_t room = room_in(setup, offload::Tier::host, device);
  const std::int64_t pages_apart = std::max<std::int64_t>(1, pages / (2 * in_flight));
  const std::int64_t piece =
      std::min({kMiB, room / in_flight / kPageBytes * kPageBytes, pages_apart * kPageBytes});
  if (piece <= 0) return {};
  const PinnedBuffer buffer = device.allocate_pinned("measurement", in_flight * piece);
  std::memset(buffer.data(), 0x5A, static_cast<std::size_t>(buffer.bytes()));
  return DriveMeasurement(storage, buffer, in_flight, piece).run(workers);
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
