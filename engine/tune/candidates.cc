#include "engine/tune/candidates.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;
using offload::Tier;

namespace {

// Of a step: all that decides what is computed, or that buffers are sized by.
std::vector<Options> step_shapes(const SearchSpace& space) {
  std::vector<Options> shapes;
  for (const std::int64_t micro_batch : space.micro_batches) {
    for (const auto& pass : space.passes(micro_batch)) {
      for (const bool recompute : space.recompute) {
        for (const std::string& moments : space.moments) {
          for (const std::string& grad_dtype : space.grad_dtypes) {
            Options options = space.base;
            options.micro_batch = micro_batch;
            options.pass = pass;
            options.recompute = recompute;
            options.moments = moments;
            options.grad_dtype = grad_dtype;
            shapes.push_back(std::move(options));
          }
        }
      }
    }
  }
  return shapes;
}

bool same_tiers(const offload::Plan& a, const offload::Plan& b) {
  return std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(),
                    [](const auto& one, const auto& other) { return one.tiers == other.tiers; });
}

using TierBytes = std::array<std::int64_t, offload::kTiers>;

std::array<TierBytes, offload::kStateKinds> bytes_of_kinds(const offload::Plan& plan) {
  std::array<TierBytes, offload::kStateKinds> bytes{};
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const auto kind = static_cast<StateKind>(k);
    for (const offload::UnitPlan& unit : plan.units) {
      bytes[k][static_cast<std::size_t>(unit.tier(kind))] += plan.shard_bytes(unit, kind);
    }
  }
  return bytes;
}

// How a step is divided and what it keeps.
std::string step_text(const RunSetup& setup) {
  const Options& options = setup.options;
  return fmt::format("{} {} {} {} {} {}", setup.batch.micro_batch, setup.batch.pass_size,
                     options.recompute, options.moments, options.grad_dtype,
                     name_of(setup.plan.activations));
}

}  // namespace

Candidates::Candidates(const SearchSpace& space, const SearchPlace& place)
    : space_(space), place_(place) {
  for (const Options& options : step_shapes(space)) {
    shapes_.push_back(resolve_run_setup(options, place.topology, place.comm_staging,
                                        space.budgets.front(), place.block_elements,
                                        Purpose::training, place.device));
  }
}

void Candidates::for_each(const Visit& visit) {
  visit_until([&](const Candidate& candidate, const RunSetup& setup) {
    visit(candidate, setup);
    return true;
  });
}

std::optional<RunSetup> Candidates::first() {
  std::optional<RunSetup> found;
  visit_until([&](const Candidate&, const RunSetup& setup) {
    found = setup;
    return false;
  });
  return found;
}

void Candidates::visit_until(const VisitSome& visit) {
  for (std::size_t shape = 0; shape < shapes_.size(); ++shape) {
    Candidate candidate{shapes_[shape].options, {}, shape};
    for (const MemoryBudgets& budgets : space_.budgets) {
      candidate.budgets = budgets;
      for (const std::string& activations : space_.activations) {
        candidate.options.activations = activations;
        for (const std::string& placement : space_.placements) {
          candidate.options.place = placement;
          if (!plan_with_some_prefetch(candidate)) continue;
          if (!visit(candidate, shapes_[shape])) return;
        }
      }
    }
  }
}

bool Candidates::plan_with_some_prefetch(Candidate& candidate) {
  const int first = space_.prefetch.front();
  for (const int depth : space_.prefetch) {
    if (depth > first) continue;
    candidate.options.prefetch = depth;
    if (plan(candidate)) return true;
  }
  return false;
}

bool Candidates::plan(const Candidate& candidate) {
  RunSetup& setup = shapes_[candidate.shape];
  set_tiers(setup, with_budgets(candidate.options, candidate.budgets, place_.topology),
            candidate.budgets);
  offload::PlanResult result = make_plan(setup.plan_input);
  if (!result.fits || result.plan.total_bytes(Tier::nvme) > place_.storage_bytes) return false;
  setup.plan = std::move(result.plan);
  return true;
}

Candidate Candidates::with_cut_budgets(const Candidate& candidate) {
  STRATA_CHECK(plan(candidate), "a candidate that fitted does not fit");
  const offload::Plan whole = setup(candidate).plan;
  Candidate cut = candidate;
  const auto taken = [&](Tier tier) { return round_up(whole.total_bytes(tier), kMiB); };
  if (!space_.base.device_memory) cut.budgets.device_bytes = taken(Tier::device);
  if (!space_.base.host_memory) cut.budgets.host_bytes = taken(Tier::host);
  if (plan(cut) && same_tiers(setup(cut).plan, whole)) return cut;
  STRATA_CHECK(plan(candidate), "a candidate that fitted does not fit");
  return candidate;
}

std::string shape_text(const RunSetup& setup) {
  std::string text = step_text(setup);
  for (const TierBytes& bytes : bytes_of_kinds(setup.plan)) {
    const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
    for (const std::int64_t part : bytes) {
      text += fmt::format(" {}", all == 0 ? 0 : ceil_div(10 * part, all));
    }
  }
  return text;
}

std::string outline_text(const RunSetup& setup) {
  std::string text = step_text(setup);
  for (const TierBytes& bytes : bytes_of_kinds(setup.plan)) {
    const auto most = std::max_element(bytes.begin(), bytes.end()) - bytes.begin();
    text += fmt::format(" {}", name_of(static_cast<Tier>(most)));
  }
  return text;
}

void refuse_all(const SearchSpace& space, const SearchPlace& place) {
  Options options = with_budgets(space.base, space.budgets.front(), place.topology);
  const RunSetup setup = make_run_setup(options, place.topology, place.comm_staging,
                                        place.block_elements, Purpose::training, place.device);
  throw_error<ConfigError>(
      "no plan fits: what is not in memory takes {} of NVMe, and {}; give a directory with more "
      "(--nvme), or more memory",
      format_bytes(setup.plan.total_bytes(Tier::nvme)),
      place.storage_bytes == 0 ? "none is given" : format_bytes(place.storage_bytes) + " is free");
}

}  // namespace strata::engine
