#include <algorithm>
#include <cstring>

#include "engine/cost/measured_rates.h"
#include "engine/cost/repeats.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "models/carver.h"
#include "offload/plan_traffic.h"
#include "offload/store/checksum.h"
#include "optim_cpu/optimizer.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kBytesMax = 128 * kMiB;  // beyond the caches of most machines
constexpr std::int64_t kTileBytes = 256 * kKiB;
constexpr int kRunsMax = 20;

// The fastest of some runs.
template <typename Run>
double fastest_bytes_per_s(std::int64_t bytes, const Run& run) {
  double best = 0;
  for (Repeats repeats(kRunsMax); !repeats.enough();) {
    const Stopwatch watch;
    run();
    const double seconds = watch.seconds();
    repeats.ran(seconds);
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

// Of body(tile) over all tiles, on all workers.
template <typename Body>
double fastest_bytes_per_s(WorkerSet& workers, std::int64_t bytes, std::int64_t tiles,
                           const Body& body) {
  return fastest_bytes_per_s(
      bytes, [&] { workers.parallel_for(tiles, [&](std::int64_t tile, int) { body(tile); }); });
}

offload::Tier cores_tier(const Device& device) {
  return device.kind() == DeviceKind::cpu ? offload::Tier::device : offload::Tier::host;
}

// Of so many elements as the optimizer meets them.
struct StateLayout {
  StateLayout(models::Carver& carver, const offload::StateDtypes& dtypes, std::int64_t elements) {
    const auto take = [&](offload::StateKind kind) {
      return exists(kind, dtypes) ? carver.take(elements * element_bytes(kind, dtypes)) : nullptr;
    };
    const auto take_moment = [&](offload::StateKind kind) -> optim::Moment {
      if (!exists(kind, dtypes) || dtypes.moments != MomentFormat::int8) return {take(kind)};
      return {carver.take(elements), carver.take_f32(elements / kScaleElements)};
    };
    state.weight = take(offload::StateKind::weights);
    state.remainder = reinterpret_cast<std::int16_t*>(take(offload::StateKind::remainder));
    state.moments = dtypes.moments;
    state.moment1 = take_moment(offload::StateKind::moment1);
    state.moment2 = take_moment(offload::StateKind::moment2);
    gradient_bytes = elements * bytes_of(dtypes.gradients);
    state.gradient = gradient = carver.take(gradient_bytes);
    state.gradient_dtype = dtypes.gradients;
    state.elements = elements;
  }

  optim::State state;
  std::byte* gradient = nullptr;
  std::int64_t gradient_bytes = 0;
};

// Elements [first, first + count).
optim::State piece(const optim::State& whole, const offload::StateDtypes& dtypes,
                   std::int64_t first, std::int64_t count) {
  const auto from = [&](void* values, std::int64_t each_bytes) -> void* {
    return values == nullptr ? nullptr : static_cast<std::byte*>(values) + first * each_bytes;
  };
  const auto moment = [&](const optim::Moment& moment, offload::StateKind kind) -> optim::Moment {
    if (moment.values == nullptr) return {};
    if (moment.scales == nullptr) return {from(moment.values, element_bytes(kind, dtypes))};
    return {from(moment.values, 1), moment.scales + first / kScaleElements};
  };
  optim::State part = whole;
  part.weight = from(whole.weight, bytes_of(dtypes.weights));
  part.remainder = whole.remainder == nullptr ? nullptr : whole.remainder + first;
  part.moment1 = moment(whole.moment1, offload::StateKind::moment1);
  part.moment2 = moment(whole.moment2, offload::StateKind::moment2);
  part.gradient = from(const_cast<void*>(whole.gradient), bytes_of(dtypes.gradients));
  part.elements = count;
  part.first_element = first;
  return part;
}

}  // namespace

// Touched, so that no measurement is the first to.
class CoreMeasurement::Memory {
 public:
  Memory(Device& device, std::int64_t bytes) {
    if (cores_tier(device) == offload::Tier::device) {
      device_ = device.allocate("measurement", bytes);
    } else {
      pinned_ = device.allocate_pinned("measurement", bytes);
    }
    std::memset(data(), 0, static_cast<std::size_t>(bytes));
  }
  std::byte* data() const { return pinned_.bytes() > 0 ? pinned_.data() : device_.data(); }

 private:
  DeviceBuffer device_;
  PinnedBuffer pinned_;
};

std::int64_t room_in(const RunSetup& setup, offload::Tier tier, Device& device) {
  const Budget& budget =
      tier == offload::Tier::device ? device.device_budget() : device.host_budget();
  return setup.plan.total_bytes(tier) - budget.held_bytes();
}

std::int64_t updated_elements(const offload::Plan& plan) {
  std::int64_t elements = 0;
  for (const offload::UnitPlan& unit : plan.units) {
    if (!unit.frozen) elements += unit.shard_elements;
  }
  return elements;
}

// As many as there is room for in what training passes over at once: it may find that in a cache.
std::int64_t CoreMeasurement::tiles_of(std::int64_t at_once_bytes, std::int64_t tile_bytes) const {
  const std::int64_t room = room_in(setup_, cores_tier(device_), device_);
  return std::min({room, kBytesMax, std::max(at_once_bytes, tile_bytes)}) / tile_bytes;
}

// Of the longest shard, whose gradient is copied in f32, and where it goes to.
std::int64_t CoreMeasurement::copied_tiles() const {
  std::int64_t elements = 0;
  for (const offload::UnitPlan& unit : setup_.plan.units) {
    elements = std::max(elements, unit.shard_elements);
  }
  return tiles_of(2 * 4 * elements, 2 * kTileBytes);
}

double CoreMeasurement::memory() const {
  const std::int64_t tiles = copied_tiles();
  if (tiles <= 0) return 0;
  const std::int64_t bytes = tiles * kTileBytes;
  const Memory memory(device_, 2 * bytes);
  return fastest_bytes_per_s(workers_, 2 * bytes, tiles, [&](std::int64_t tile) {
    std::byte* const from = memory.data() + tile * kTileBytes;
    std::memcpy(from + bytes, from, kTileBytes);
  });
}

double CoreMeasurement::core_memory() const {
  const std::int64_t bytes = copied_tiles() * kTileBytes;
  if (bytes <= 0) return 0;
  const Memory memory(device_, 2 * bytes);
  return fastest_bytes_per_s(2 * bytes, [&] {
    std::memcpy(memory.data() + bytes, memory.data(), static_cast<std::size_t>(bytes));
  });
}

double CoreMeasurement::checksums() const {
  const std::int64_t tiles = tiles_of(optimizer_buffer_bytes(setup_.plan), kTileBytes);
  if (tiles <= 0) return 0;
  const Memory memory(device_, tiles * kTileBytes);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(tiles));
  return fastest_bytes_per_s(workers_, tiles * kTileBytes, tiles, [&](std::int64_t tile) {
    sums[static_cast<std::size_t>(tile)] =
        store::checksum(memory.data() + tile * kTileBytes, kTileBytes, 0);
  });
}

double CoreMeasurement::optimizer() const {
  constexpr std::int64_t kTile = optim::kTileElements;
  const offload::StateDtypes& dtypes = setup_.plan.dtypes;
  const std::int64_t tile_bytes = models::layout_bytes<StateLayout>(dtypes, kTile);
  // A chunk that passes through a buffer has just been copied or checked.
  const std::int64_t at_once =
      setup_.plan.stages_state() ? setup_.plan.chunk_elements : updated_elements(setup_.plan);
  const std::int64_t tiles = tiles_of(at_once / kTile * tile_bytes, tile_bytes);
  if (tiles <= 0) return 0;
  const Memory memory(device_, tiles * tile_bytes);
  const auto layout = models::lay_out<StateLayout>(memory.data(), dtypes, tiles * kTile);
  // In f32 and in bf16 it is a number of about 7e-4.
  std::memset(layout.gradient, 0x3A, static_cast<std::size_t>(layout.gradient_bytes));
  optim::StepSettings settings;
  if (dtypes.moment_count == 1) settings.method = optim::Method::lion;
  const optim::Segment segment{kTile, 1e-4f, 0.1f};
  const std::int64_t bytes = update_bytes(setup_.plan, tiles * kTile);
  return fastest_bytes_per_s(workers_, bytes, tiles, [&](std::int64_t tile) {
    const optim::State state = piece(layout.state, dtypes, tile * kTile, kTile);
    STRATA_CHECK(optim::update(settings, {&segment, 1}, state, setup_.isa));
  });
}

}  // namespace strata::engine
