#include "engine/tune/search_space.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/options/option_changes.h"
#include "engine/options/option_check.h"
#include "engine/options/option_list.h"
#include "engine/options/option_ranges.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"
#include "offload/tier.h"

namespace strata::engine {

using offload::StateKind;

namespace {

constexpr std::array<const char*, 4> kVariable = {"micro-batch", "pass", "moments", "grad-dtype"};
constexpr const char* kNothing = "none";
constexpr int kPlansMax = 50;
constexpr int kPrefetchMax = 6;
constexpr std::int64_t kChunksMiB[] = {1, 2, 4, 8, 16};
constexpr int kSplits = 8;

// A run that goes on keeps what changes bits, as train would make it.
bool may_vary(const Options& options, std::string_view name, Variation variation) {
  const bool is_kept = is_given(options, name) || (options.resume && !allows_change(options, name));
  return variation == Variation::as_options_say && !is_kept &&
         std::find(options.vary.begin(), options.vary.end(), name) != options.vary.end();
}

// Shares of the device in eighths. Whole MiB, so that the command line has short numbers.
std::vector<MemoryBudgets> memory_budgets(const Options& options, const SearchPlace& place) {
  const auto whole = [](std::int64_t bytes) {
    return std::max<std::int64_t>(0, bytes / kMiB * kMiB);
  };
  const std::int64_t ranks = place.topology.local_world_size;
  const std::int64_t host = options.host_memory.value_or(0) / ranks;
  const std::int64_t device = options.device_memory.value_or(0);
  if (place.device_bytes > 0) {
    return {{options.device_memory.value_or(place.device_bytes),
             options.host_memory ? host : whole(place.memory_bytes)}};
  }
  if (options.device_memory && options.host_memory) return {{device, host}};
  if (options.device_memory) return {{device, whole(place.memory_bytes - device)}};
  if (options.host_memory) return {{whole(place.memory_bytes - host), host}};
  std::vector<MemoryBudgets> budgets;
  for (int part = 1; part < kSplits; ++part) {
    const std::int64_t bytes = whole(place.memory_bytes * part / kSplits);
    budgets.push_back({bytes, whole(place.memory_bytes - bytes)});
  }
  return budgets;
}

std::vector<std::int64_t> micro_batches(const Options& options, std::int64_t sequences,
                                        Variation variation) {
  if (!may_vary(options, "micro-batch", variation)) return {options.micro_batch};
  std::vector<std::int64_t> sizes = {std::min(options.micro_batch, sequences)};
  for (std::int64_t size = 1; sequences % size == 0; size *= 2) {
    sizes.push_back(size);
    if (size > sequences / 2) break;
  }
  sizes.push_back(sequences);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<std::string> placements(const Options& options, bool has_nvme) {
  const std::string own = is_given(options, "place") ? options.place : "";
  const offload::Placement given = offload::parse_placement(own);
  std::vector<const char*> tiers = {"", "host"};
  if (has_nvme) tiers.push_back("nvme");
  std::vector<const char*> with_device = tiers;
  with_device.insert(with_device.begin() + 1, "device");
  struct Kind {
    const char* name;
    StateKind kind;
  };
  constexpr Kind kKinds[] = {{"weights", StateKind::weights},
                             {"remainder", StateKind::remainder},
                             {"moments", StateKind::moment1},
                             {"gradients", StateKind::gradients}};
  std::vector<std::string> texts = {own};
  for (const Kind& kind : kKinds) {
    const bool absent = kind.kind == StateKind::remainder && options.precision == "f32";
    if (absent || given.states[static_cast<std::size_t>(kind.kind)]) continue;
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      const bool on_device = kind.kind == StateKind::weights;
      for (const std::string tier : on_device ? with_device : tiers) {
        const std::string named = tier.empty() ? "" : kind.name + ("=" + tier);
        longer.push_back(text + (text.empty() || named.empty() ? "" : ",") + named);
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

std::vector<std::string> activation_tiers(const Options& options, bool has_nvme) {
  if (is_given(options, "activations") && options.activations != "auto") {
    return {options.activations};
  }
  return has_nvme ? std::vector<std::string>{"device", "host", "nvme"}
                  : std::vector<std::string>{"device", "host"};
}

std::vector<int> prefetches(const Options& options) {
  std::vector<int> depths = {options.prefetch};
  if (is_given(options, "prefetch")) return depths;
  for (int depth = kPrefetchMax; depth >= 0; --depth) {
    if (depth != options.prefetch) depths.push_back(depth);
  }
  return depths;
}

std::vector<std::optional<std::int64_t>> chunk_sizes(const Options& options) {
  if (is_given(options, "chunk-size")) return {options.chunk_size};
  std::vector<std::optional<std::int64_t>> sizes;
  for (const std::int64_t size : kChunksMiB) sizes.emplace_back(size * kMiB);
  return sizes;
}

}  // namespace

std::vector<std::optional<std::int64_t>> SearchSpace::passes(std::int64_t micro_batch) const {
  if (!varies_pass) return {base.pass};
  std::vector<std::optional<std::int64_t>> sizes = {std::nullopt};
  const std::int64_t all = ceil_div(sequences, micro_batch);
  for (std::int64_t size = all / 2; size > 0; size /= 2) sizes.emplace_back(size);
  return sizes;
}

SearchSpace make_search_space(const Options& options, const SearchPlace& place,
                              Variation variation) {
  const bool has_nvme = place.storage_bytes > 0;
  SearchSpace space;
  space.base = options;
  space.budgets = memory_budgets(options, place);
  space.sequences = ceil_div(options.global_batch, place.topology.world_size);
  space.micro_batches = micro_batches(options, space.sequences, variation);
  space.varies_pass = may_vary(options, "pass", variation);
  space.recompute = is_given(options, "recompute") ? std::vector<bool>{options.recompute}
                                                   : std::vector<bool>{true, false};
  const auto formats = [&](const char* name, const std::string& own, std::vector<std::string> all) {
    return may_vary(options, name, variation) ? std::move(all) : std::vector<std::string>{own};
  };
  space.moments = formats("moments", options.moments, {"f32", "bf16", "int8"});
  space.grad_dtypes = formats("grad-dtype", options.grad_dtype, {"f32", "bf16"});
  name_in_errors("place", [&] { space.placements = placements(options, has_nvme); });
  space.activations = activation_tiers(options, has_nvme);
  space.prefetch = prefetches(options);
  space.chunk_sizes = chunk_sizes(options);
  return space;
}

MemoryBudgets even_budgets(const Options& options, const SearchPlace& place) {
  const std::vector<MemoryBudgets> ways = memory_budgets(options, place);
  return ways[ways.size() / 2];
}

Options with_budgets(Options options, const MemoryBudgets& budgets,
                     const comm::Topology& topology) {
  options.device_memory = budgets.device_bytes;
  options.host_memory = budgets.host_bytes * topology.local_world_size;
  return options;
}

void check_tune_options(const Options& options) {
  std::vector<std::string> names(kVariable.begin(), kVariable.end());
  names.emplace_back(kNothing);
  for (const std::string& name : options.vary) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw_error<ConfigError>("--vary: '{}' is none of {}{}", name, fmt::join(names, ", "),
                               did_you_mean(name, names));
    }
    if (name == kNothing && options.vary.size() > 1) {
      throw_error<ConfigError>("--vary {}: '{}' stands alone", fmt::join(options.vary, ","), name);
    }
    if (options.resume && is_given(options, "vary") && name != kNothing &&
        !allows_change(options, name)) {
      throw_error<ConfigError>(
          "--vary {0}: a run that goes on keeps its --{0}; --allow-change {0} lets it differ",
          name);
    }
  }
  if (options.vary.empty()) {
    throw_error<ConfigError>("--vary names nothing; write --vary {}", kNothing);
  }
  require_within("plans", options.plans, 1, kPlansMax);
}

std::vector<std::string> changed_bits(const Options& base, const Options& chosen) {
  std::vector<std::string> changed;
  for (const OptionChange& change : changed_mathematics(base, chosen)) {
    changed.push_back(change.name);
  }
  return changed;
}

}  // namespace strata::engine
