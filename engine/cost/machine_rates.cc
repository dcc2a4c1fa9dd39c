#include "engine/cost/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/plan/write_forecast.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// What may be held for a moment without raising the peak above the plan.
std::int64_t room_in(const RunSetup& setup, offload::Tier tier, const Budget& budget) {
  return setup.plan.total_bytes(tier) - budget.held_bytes();
}

// bf16 unless f32 won more of the shapes (or the operands are f32).
Dtype majority(const std::vector<ops::MatmulChoice>& choices) {
  const auto bf16 = std::count_if(choices.begin(), choices.end(), [](const auto& choice) {
    return choice.arithmetic == Dtype::bf16;
  });
  return 2 * bf16 >= static_cast<std::ptrdiff_t>(choices.size()) ? Dtype::bf16 : Dtype::f32;
}

// The one that --matmul-dtype asks for.
std::optional<Dtype> forced_arithmetic(const RunSetup& setup, CpuDevice& device) {
  if (setup.options.matmul_dtype == "auto") return std::nullopt;
  if (setup.options.matmul_dtype == "f32") return Dtype::f32;
  if (!ops::multiplies_bf16(device)) {
    throw_error<ConfigError>(
        "--matmul-dtype bf16: {} cannot multiply bf16 on this machine or with this --isa; use f32 "
        "or auto",
        ops::matmul_library());
  }
  return Dtype::bf16;
}

// The recorded choices with the speeds that they have here.
std::vector<ops::MatmulChoice> measure_recorded(const RunSetup& setup, CpuDevice& device,
                                                std::span<const ops::MatmulShape> shapes,
                                                const RecordedArithmetic& recorded) {
  std::vector<ops::MatmulChoice> choices;
  for (const ops::MatmulShape& shape : shapes) {
    const ops::MatmulChoice* const choice = recorded.choice_of(shape);
    STRATA_CHECK(choice != nullptr, "see require_arithmetic()");
    choices.push_back(
        ops::measure_matmuls(device, {&shape, 1}, setup.shape.precision, &choice->arithmetic)
            .front());
  }
  return choices;
}

void choose_matmuls(const RunSetup& setup, CpuDevice& device, comm::Communicator& comm,
                    const RecordedArithmetic* recorded, MachineRates& rates) {
  const std::optional<Dtype> forced = forced_arithmetic(setup, device);
  const std::vector<ops::MatmulShape> shapes = matmul_shapes(setup.shape);
  rates.matmuls.resize(shapes.size());
  if (comm.rank() == 0) {
    rates.matmuls = recorded != nullptr
                        ? measure_recorded(setup, device, shapes, *recorded)
                        : ops::measure_matmuls(device, shapes, setup.shape.precision,
                                               forced ? &*forced : nullptr);
    rates.default_arithmetic = recorded != nullptr ? recorded->default_arithmetic
                                                   : forced.value_or(majority(rates.matmuls));
  }
  comm.broadcast(std::as_writable_bytes(std::span(rates.matmuls)), 0);
  comm.broadcast(std::as_writable_bytes(std::span(&rates.default_arithmetic, 1)), 0);
  ops::set_matmul_choices(device, rates.matmuls, rates.default_arithmetic);
}

double measure_memory(const RunSetup& setup, CpuDevice& device) {
  constexpr std::int64_t kTileBytes = kMiB;
  const std::int64_t room = room_in(setup, offload::Tier::device, device.device_budget());
  const std::int64_t tiles = std::min<std::int64_t>(room / 2, 64 * kMiB) / kTileBytes;
  if (tiles == 0) return 0;
  const DeviceBuffer memory = device.allocate("measurement", 2 * tiles * kTileBytes);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Stopwatch watch;
    device.workers().parallel_for(tiles, [&](std::int64_t tile, int) {
      std::memcpy(memory.data() + (tiles + tile) * kTileBytes, memory.data() + tile * kTileBytes,
                  kTileBytes);
    });
    best = std::max(best, static_cast<double>(2 * tiles * kTileBytes) / watch.seconds());
  }
  return best;
}

// Writes and then reads real data (extents that were never written read without the drive), a few
// requests at a time for each drive, as the streams do.
void measure_storage(const RunSetup& setup, CpuDevice& device, io::Storage& storage,
                     MachineRates& rates) {
  const std::int64_t capacity = storage.capacity_bytes();
  const std::int64_t in_flight =
      std::min<std::int64_t>(4 * storage.devices(), capacity / kPageBytes);  // all different places
  const std::int64_t room = room_in(setup, offload::Tier::host, device.host_budget());
  const std::int64_t piece =
      std::min({kMiB, room / in_flight, capacity / in_flight}) / kPageBytes * kPageBytes;
  if (piece == 0) return;
  const std::int64_t pieces = measuring_bytes(capacity) / piece;
  const std::int64_t places = capacity / piece;
  const PinnedBuffer buffer = device.allocate_pinned("measurement", in_flight * piece);
  std::memset(buffer.data(), 0x5A, static_cast<std::size_t>(buffer.bytes()));
  std::vector<io::IoGroup> groups(static_cast<std::size_t>(in_flight));
  const auto bytes_per_s = [&](auto&& transfer) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < pieces; ++i) {
      io::IoGroup& group = groups[static_cast<std::size_t>(i % in_flight)];
      group.wait();
      transfer(i % places * piece, buffer.span(i % in_flight * piece, piece), group);
    }
    for (io::IoGroup& group : groups) group.wait();
    return static_cast<double>(pieces * piece) / watch.seconds();
  };
  rates.nvme.written_bytes_per_s =
      bytes_per_s([&](std::int64_t offset, AlignedSpan span, io::IoGroup& group) {
        storage.write(offset, span, group);
      });
  rates.nvme.read_bytes_per_s =
      bytes_per_s([&](std::int64_t offset, AlignedSpan span, io::IoGroup& group) {
        storage.read(offset, span, group);
      });
}

}  // namespace

double DriveRates::seconds(double read_bytes, double written_bytes) const {
  if (!in_use()) return 0;
  const double apart = read_bytes / read_bytes_per_s + written_bytes / written_bytes_per_s;
  if (mixed_bytes_per_s == 0) return apart;
  const double both = std::min(read_bytes, written_bytes);
  return std::min(apart, 2 * both / mixed_bytes_per_s + (read_bytes - both) / read_bytes_per_s +
                             (written_bytes - both) / written_bytes_per_s);
}

double MachineRates::matmul_peak_flops_per_s() const {
  double peak = 0;
  for (const ops::MatmulChoice& choice : matmuls) peak = std::max(peak, choice.flops_per_s);
  return peak;
}

nlohmann::json arithmetic_json(const RunSetup& setup, const MachineRates& rates) {
  return arithmetic_json(RecordedArithmetic{name_of(setup.isa), ops::matmul_library(),
                                            name_of(setup.shape.precision),
                                            rates.default_arithmetic, rates.matmuls});
}

MachineRates measure_machine(const RunSetup& setup, CpuDevice& device, io::Storage* storage,
                             comm::Communicator& comm, const RecordedArithmetic* recorded) {
  MachineRates rates;
  choose_matmuls(setup, device, comm, recorded, rates);
  rates.memory_bytes_per_s = measure_memory(setup, device);
  if (storage != nullptr) measure_storage(setup, device, *storage, rates);
  return rates;
}

}  // namespace strata::engine
