#include "engine/tools/bench_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "optim_cpu/memory_floor.h"

namespace strata::engine {
namespace {

using Masters = OptimizerVariant::Masters;

constexpr OptimizerVariant kVariants[] = {
    {.name = "f32-gradients"},
    {.name = "bf16-gradients", .gradient = Dtype::bf16},
    {.name = "f32-masters", .masters = Masters::f32},
    {.name = "bf16-moments", .moments = MomentFormat::bf16},
    {.name = "int8-moments", .moments = MomentFormat::int8},
    {.name = "lion", .method = optim::Method::lion},
};

double moment_bytes(MomentFormat format) {
  switch (format) {
    case MomentFormat::f32:
      return 4;
    case MomentFormat::bf16:
      return 2;
    case MomentFormat::int8:
      break;
  }
  return 1 + 4.0 / kScaleElements;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Spread evenly over (-1, 1), without order.
float random_value(std::int64_t i) {
  const auto hash =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15u >> 32);
  return static_cast<float>(hash) * 0x1p-31f - 1;
}

}  // namespace

double OptimizerVariant::written_bytes() const {
  return 4 + moment_bytes(moments) * (method == optim::Method::lion ? 1 : 2);
}

double OptimizerVariant::read_bytes() const {
  return written_bytes() + static_cast<double>(bytes_of(gradient));
}

double OptimizerBenchCell::bytes_per_s() const {
  return (variant.read_bytes() + variant.written_bytes()) / (update_ns * 1e-9);
}

std::span<const OptimizerVariant> optimizer_variants() { return kVariants; }

const OptimizerVariant& parse_optimizer_variant(const std::string& name) {
  std::vector<std::string> names;
  for (const OptimizerVariant& variant : kVariants) {
    if (name == variant.name) return variant;
    names.emplace_back(variant.name);
  }
  throw_error<ConfigError>("--variants: '{}' is not one of {}", name, fmt::join(names, ", "));
}

// Each array has room for its largest format.
OptimizerBench::OptimizerBench(std::int64_t elements, Isa isa)
    : elements_(elements),
      isa_(isa),
      budget_("host memory", kElementBytesMax * elements + 7 * kPageBytes),
      weight_(budget_, "weight", 4 * elements),
      remainder_(budget_, "remainder", 2 * elements),
      moment1_(budget_, "moment1", 4 * elements),
      moment2_(budget_, "moment2", 4 * elements),
      scales1_(budget_, "scales", 4 * ceil_div(elements, kScaleElements)),
      scales2_(budget_, "scales", 4 * ceil_div(elements, kScaleElements)),
      gradient_(budget_, "gradient", 4 * elements) {}

optim::State OptimizerBench::state(const OptimizerVariant& variant, std::int64_t begin,
                                   std::int64_t end) const {
  const bool split = variant.masters == Masters::split;
  const auto moment = [&](const AlignedBuffer& values, const AlignedBuffer& scales) {
    const bool int8 = variant.moments == MomentFormat::int8;
    const std::int64_t bytes = int8 ? 1 : variant.moments == MomentFormat::bf16 ? 2 : 4;
    return optim::Moment{values.data() + begin * bytes,
                         int8 ? scales.as<float>() + begin / kScaleElements : nullptr};
  };
  optim::State state;
  state.weight = weight_.data() + begin * (split ? 2 : 4);
  state.remainder = split ? remainder_.as<std::int16_t>() + begin : nullptr;
  state.moments = variant.moments;
  state.moment1 = moment(moment1_, scales1_);
  if (variant.method != optim::Method::lion) state.moment2 = moment(moment2_, scales2_);
  state.gradient = gradient_.data() + begin * bytes_of(variant.gradient);
  state.gradient_dtype = variant.gradient;
  state.elements = end - begin;
  state.first_element = begin;
  return state;
}

// Weights below 1, gradients below 1e-3, moments of zero, which are zero bytes in every format.
void OptimizerBench::fill(const OptimizerVariant& variant, WorkerSet& workers) {
  for (const AlignedBuffer* zeros : {&moment1_, &moment2_, &scales1_, &scales2_}) {
    std::memset(zeros->data(), 0, static_cast<std::size_t>(zeros->bytes()));
  }
  workers.parallel_for(ceil_div(elements_, optim::kTileElements), [&](std::int64_t tile, int) {
    const std::int64_t end = std::min(elements_, (tile + 1) * optim::kTileElements);
    for (std::int64_t i = tile * optim::kTileElements; i < end; ++i) {
      const float x = random_value(i);
      if (variant.masters == Masters::split) {
        weight_.as<bf16>()[i] = split_master(x).weight;
        remainder_.as<std::int16_t>()[i] = split_master(x).remainder;
      } else {
        weight_.as<float>()[i] = x;
      }
      const float g = random_value(i + elements_) * 1e-3f;
      if (variant.gradient == Dtype::bf16) {
        gradient_.as<bf16>()[i] = to_bf16_nearest_even(g);
      } else {
        gradient_.as<float>()[i] = g;
      }
    }
  });
}

template <typename Visit>
double OptimizerBench::time_ns(WorkerSet& workers, const Visit& visit) const {
  const auto begin = std::chrono::steady_clock::now();
  workers.parallel_for(ceil_div(elements_, optim::kTileElements), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * optim::kTileElements;
    visit(first, std::min(elements_, first + optim::kTileElements));
  });
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / static_cast<double>(elements_);
}

OptimizerBenchCell OptimizerBench::measure(const OptimizerVariant& variant, WorkerSet& workers,
                                           int pairs) {
  fill(variant, workers);
  optim::StepSettings settings{.method = variant.method};
  const auto update_tile = [&](std::int64_t begin, std::int64_t end) {
    const optim::Segment segment{end - begin, 1e-4f, 0.1f, false};
    STRATA_CHECK(optim::update(settings, std::span(&segment, 1), state(variant, begin, end), isa_));
  };
  const auto touch_tile = [&](std::int64_t begin, std::int64_t end) {
    optim::touch_state(state(variant, begin, end), isa_);
  };
  time_ns(workers, update_tile);  // warms up
  std::vector<double> floors, updates, shares;
  for (int pair = 0; pair < pairs; ++pair) {
    ++settings.step;
    floors.push_back(time_ns(workers, touch_tile));
    updates.push_back(time_ns(workers, update_tile));
    shares.push_back(floors.back() / updates.back());
  }
  return {variant, workers.threads(), median(updates), median(floors), median(shares)};
}

std::string optimizer_bench_header() {
  return fmt::format("{:<15} {:>7} {:>8} {:>8} {:>9} {:>8} {:>9} {:>9}\n", "variant", "threads",
                     "read B", "write B", "ns/param", "GB/s", "floor ns", "of floor");
}

std::string optimizer_bench_row(const OptimizerBenchCell& cell) {
  return fmt::format("{:<15} {:>7} {:>8.4g} {:>8.4g} {:>9.3f} {:>8.1f} {:>9.3f} {:>8.0f}%\n",
                     cell.variant.name, cell.threads, cell.variant.read_bytes(),
                     cell.variant.written_bytes(), cell.update_ns, cell.bytes_per_s() * 1e-9,
                     cell.floor_ns, 100 * cell.share_of_floor);
}

nlohmann::json optimizer_bench_json(std::span<const OptimizerBenchCell> cells) {
  nlohmann::json json = nlohmann::json::array();
  for (const OptimizerBenchCell& cell : cells) {
    json.push_back({{"variant", cell.variant.name},
                    {"threads", cell.threads},
                    {"read_bytes_per_parameter", cell.variant.read_bytes()},
                    {"written_bytes_per_parameter", cell.variant.written_bytes()},
                    {"ns_per_parameter", cell.update_ns},
                    {"bytes_per_s", cell.bytes_per_s()},
                    {"floor_ns_per_parameter", cell.floor_ns},
                    {"share_of_floor", cell.share_of_floor}});
  }
  return json;
}

}  // namespace strata::engine
