#include "engine/tools/bench_io.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "io/transfer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"
#include "kernels/base/trace.h"
#include "offload/store/checksum.h"

namespace strata::engine {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// User and system time of all threads of this process so far, those of the kernel's that work for
// it (io-wq) included.
double cpu_seconds() {
  rusage usage{};
  STRATA_CHECK(::getrusage(RUSAGE_SELF, &usage) == 0);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// Seeded with the place, as in the store, so that data from another place is noticed.
std::uint64_t checksum_of(std::int64_t granule, AlignedSpan piece) {
  return store::checksum(piece.data(), piece.bytes(), static_cast<std::uint64_t>(granule));
}

}  // namespace

// One block on its way.
//
//   idle ──prepare()──▶ ready ──submit()──▶ in flight ──group.wait()──▶ arrived ──check()──▶ idle
struct IoBench::Lane {
  io::IoGroup group;
  AlignedSpan span;
  bool is_write = false;
  std::int64_t offset_bytes = 0;
  std::int64_t started_ns = 0;
};

// Which block of the storage each request is for: reads and writes go round in order, and in mixed
// mode each keep to a half of their own, so that no two requests in flight overlap.
class IoBench::Walk {
 public:
  Walk(BenchMode mode, std::int64_t block_bytes, std::int64_t capacity_bytes)
      : mode_(mode),
        block_bytes_(block_bytes),
        places_(capacity_bytes / block_bytes / (mode == BenchMode::mixed ? 2 : 1)) {}

  void next(Lane& lane) {
    const bool mixed = mode_ == BenchMode::mixed;
    lane.is_write = mixed ? requests_ % 2 == 1 : mode_ == BenchMode::write;
    const std::int64_t place = (mixed ? requests_ / 2 : requests_) % places_;
    const std::int64_t first = mixed && lane.is_write ? places_ : 0;
    lane.offset_bytes = (first + place) * block_bytes_;
    ++requests_;
  }

 private:
  BenchMode mode_;
  std::int64_t block_bytes_;
  std::int64_t places_;
  std::int64_t requests_ = 0;
};

IoBench::IoBench(io::Storage& storage, const IoBenchOptions& options)
    : storage_(storage),
      options_(options),
      budget_("benchmark memory", round_up(options.memory_bytes, kPageBytes)),
      memory_(budget_, "blocks", options.memory_bytes),
      checksums_(static_cast<std::size_t>(storage.capacity_bytes() / options.granule_bytes)) {
  std::generate_n(memory_.as<std::uint64_t>(), memory_.bytes() / 8, SplitMix64());
  storage_.register_memory(memory_.span());
}

void IoBench::fill() {
  const std::int64_t granule = options_.granule_bytes;
  const std::int64_t piece = std::min(round_up(kMiB, granule), options_.memory_bytes);
  const std::int64_t lane_count = std::min<std::int64_t>(options_.memory_bytes / piece, 4);
  const std::int64_t end = storage_.capacity_bytes() / granule * granule;
  const auto lanes = std::make_unique<Lane[]>(static_cast<std::size_t>(lane_count));
  for (std::int64_t request = 0; request * piece < end; ++request) {
    const std::int64_t index = request % lane_count;
    Lane& lane = lanes[static_cast<std::size_t>(index)];
    lane.group.wait();
    lane.is_write = true;
    lane.offset_bytes = request * piece;
    lane.span = memory_.span(index * piece, std::min(piece, end - lane.offset_bytes));
    prepare(lane);
    submit(lane);
  }
  for (std::int64_t i = 0; i < lane_count; ++i) lanes[static_cast<std::size_t>(i)].group.wait();
}

BenchCell IoBench::measure(BenchMode mode, std::int64_t block_bytes, int depth, double seconds) {
  const std::int64_t lane_count = depth + 1;  // one is prepared or checked while others fly
  STRATA_CHECK(block_bytes % options_.granule_bytes == 0);
  STRATA_CHECK(block_bytes * lane_count <= options_.memory_bytes);
  STRATA_CHECK(2 * block_bytes * depth <= storage_.capacity_bytes());
  const auto lanes = std::make_unique<Lane[]>(static_cast<std::size_t>(lane_count));
  const auto lane_of = [&](std::int64_t request) -> Lane& {
    return lanes[static_cast<std::size_t>(request % lane_count)];
  };
  for (std::int64_t i = 0; i < lane_count; ++i) {
    lane_of(i).span = memory_.span(i * block_bytes, block_bytes);
  }
  std::vector<std::int64_t> latencies_ns;
  Walk walk(mode, block_bytes, storage_.capacity_bytes());
  const auto prepare_next = [&](Lane& lane) {
    walk.next(lane);
    prepare(lane);
  };

  const double cpu_before_s = cpu_seconds();
  const std::int64_t begin_ns = Tracer::now_ns();
  const std::int64_t stop_ns = begin_ns + static_cast<std::int64_t>(seconds * 1e9);
  std::int64_t submitted = 0;
  std::int64_t arrived = 0;
  bool goes_on = true;  // a block is ready: whatever is prepared is submitted
  prepare_next(lane_of(0));
  while (arrived < submitted || goes_on) {
    Lane* oldest = nullptr;
    if (submitted - arrived == depth || !goes_on) {
      oldest = &lane_of(arrived++);
      oldest->group.wait();
      latencies_ns.push_back(Tracer::now_ns() - oldest->started_ns);
    }
    if (goes_on) submit(lane_of(submitted++));
    if (oldest != nullptr) check(*oldest);
    goes_on = goes_on && Tracer::now_ns() < stop_ns;
    if (goes_on) prepare_next(lane_of(submitted));
  }
  const double elapsed_s = static_cast<double>(Tracer::now_ns() - begin_ns) * 1e-9;
  const auto bytes = static_cast<double>(arrived * block_bytes);
  return {.mode = mode,
          .block_bytes = block_bytes,
          .depth = depth,
          .bytes_per_s = bytes / elapsed_s,
          .latency = latency_figures(std::move(latencies_ns)),
          .cpu_s_per_gb = (cpu_seconds() - cpu_before_s) / (bytes * 1e-9)};
}

double IoBench::checksum_bytes_per_s() const {
  constexpr std::int64_t kMeasuredNs = 50'000'000;
  const std::int64_t begin_ns = Tracer::now_ns();
  std::int64_t bytes = 0;
  std::int64_t elapsed_ns = 0;
  while (elapsed_ns < kMeasuredNs) {
    for_granules(0, memory_.span(), [&](std::int64_t granule, AlignedSpan piece) {
      static_cast<void>(checksum_of(granule, piece));
      bytes += piece.bytes();
    });
    elapsed_ns = Tracer::now_ns() - begin_ns;
  }
  return static_cast<double>(bytes) / (static_cast<double>(elapsed_ns) * 1e-9);
}

void IoBench::prepare(Lane& lane) {
  if (!lane.is_write) return;
  stamp(lane.span);
  note_checksums(lane.offset_bytes, lane.span);
}

void IoBench::submit(Lane& lane) {
  lane.started_ns = Tracer::now_ns();
  if (lane.is_write) {
    storage_.write(lane.offset_bytes, lane.span, lane.group);
  } else {
    storage_.read(lane.offset_bytes, lane.span, lane.group);
  }
}

void IoBench::check(const Lane& lane) const {
  if (!lane.is_write) check_checksums(lane.offset_bytes, lane.span);
}

void IoBench::stamp(AlignedSpan span) {
  for (std::int64_t page = 0; page < span.bytes(); page += kPageBytes) {
    ++pages_stamped_;
    std::memcpy(span.data() + page, &pages_stamped_, sizeof(pages_stamped_));
  }
}

void IoBench::note_checksums(std::int64_t offset_bytes, AlignedSpan span) {
  if (options_.checksums == Checksums::off) return;
  for_granules(offset_bytes, span, [&](std::int64_t granule, AlignedSpan piece) {
    checksums_[static_cast<std::size_t>(granule)] = checksum_of(granule, piece);
  });
}

void IoBench::check_checksums(std::int64_t offset_bytes, AlignedSpan span) const {
  if (options_.checksums == Checksums::off) return;
  for_granules(offset_bytes, span, [&](std::int64_t granule, AlignedSpan piece) {
    if (checksums_[static_cast<std::size_t>(granule)] == checksum_of(granule, piece)) return;
    throw io::request_error(io::Operation::read, storage_.description(),
                            granule * options_.granule_bytes, piece.bytes(),
                            "the bytes are not those that were written (checksum)");
  });
}

template <typename Visit>
void IoBench::for_granules(std::int64_t offset_bytes, AlignedSpan span, const Visit& visit) const {
  const std::int64_t bytes = options_.granule_bytes;
  for (std::int64_t begin = 0; begin + bytes <= span.bytes(); begin += bytes) {
    visit((offset_bytes + begin) / bytes, span.sub(begin, bytes));
  }
}

}  // namespace strata::engine
