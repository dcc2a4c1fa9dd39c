#include "engine/plan/budget_advice.h"

#include <algorithm>
#include <optional>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

using Fits = std::function<bool(const Options&)>;

offload::PlanInput with_enough_memory(offload::PlanInput input) {
  for (;;) {
    const offload::PlanResult result = make_plan(input);
    if (result.fits) return input;
    const std::int64_t needed_bytes = result.shortfall.needed_bytes;
    std::int64_t& budget_bytes = result.shortfall.tier == offload::Tier::device
                                     ? input.device_memory_bytes
                                     : input.host_memory_bytes;
    const bool is_more = needed_bytes > budget_bytes;
    budget_bytes = round_up(is_more ? needed_bytes : budget_bytes + budget_bytes / 8, kMiB);
  }
}

// What the GPU at hand lacks of a budget, or nothing.
std::string beyond_gpu(const RankDevice& device, std::int64_t bytes) {
  if (!device.gpu) return "";
  const std::int64_t most = device.gpu->gpu.context_bytes + device.gpu->gpu.free_bytes;
  return bytes <= most ? "" : fmt::format(" (this GPU has {} free)", format_bytes(most));
}

// As the user would write them.
std::string budgets_that_fit(const RunSetup& setup) {
  const offload::PlanInput& had = setup.plan_input;
  const offload::PlanInput enough = with_enough_memory(had);
  std::string text;
  if (enough.device_memory_bytes > had.device_memory_bytes) {
    text += fmt::format("--device-memory {}MiB{}", enough.device_memory_bytes / kMiB,
                        beyond_gpu(setup.device, enough.device_memory_bytes));
  }
  if (enough.host_memory_bytes > had.host_memory_bytes) {
    const std::int64_t per_host = setup.topology.local_world_size * enough.host_memory_bytes;
    text += fmt::format("{}--host-memory {}MiB", text.empty() ? "" : " ", per_host / kMiB);
  }
  return text;
}

// An option of which less needs less memory.
struct Knob {
  const char* name;
  std::int64_t least;
  std::int64_t now;
  void (*set)(Options&, std::int64_t);
};

// The largest value below the present one that fits, by bisection.
std::optional<std::int64_t> largest_that_fits(const Options& options, const Knob& knob,
                                              const Fits& fits) {
  const auto fits_with = [&](std::int64_t value) {
    Options changed = options;
    knob.set(changed, value);
    return fits(changed);
  };
  std::int64_t fitting = knob.least;
  std::int64_t failing = knob.now;
  if (fitting >= failing || !fits_with(fitting)) return std::nullopt;
  while (failing - fitting > 1) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (fits_with(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

std::string other_change_that_fits(const RunSetup& setup, const Fits& fits) {
  const Options& options = setup.options;
  const Knob knobs[] = {
      {"prefetch", 0, options.prefetch,
       [](Options& o, std::int64_t value) { o.prefetch = static_cast<int>(value); }},
      {"pass", 1, setup.batch.pass_size, [](Options& o, std::int64_t value) { o.pass = value; }},
      {"micro-batch", 1, setup.batch.micro_batch,
       [](Options& o, std::int64_t value) { o.micro_batch = value; }}};
  for (const Knob& knob : knobs) {
    const auto value = largest_that_fits(options, knob, fits);
    if (value) return fmt::format("--{} {}", knob.name, *value);
  }
  Options changed = options;
  changed.recompute = true;
  if (fits(changed)) return "--recompute on";
  changed = options;
  changed.activations = "auto";
  if (fits(changed)) return "--activations auto";
  changed = options;
  changed.place.clear();
  if (fits(changed)) return "leaving out --place";
  return "";
}

}  // namespace

std::string budget_advice(const RunSetup& setup, const Fits& fits) {
  const std::string other = other_change_that_fits(setup, fits);
  return fmt::format("{} would fit{}{}", budgets_that_fit(setup),
                     other.empty() ? "" : ", and so would ", other);
}

}  // namespace strata::engine
