#include "engine/tune/plan_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/tune/candidates.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::Tier;

namespace {

constexpr double kSameTime = 0.005;
constexpr std::size_t kPredictionsMax = 160;
constexpr std::size_t kRefinedMin = 8;

// What is nearly the same has mostly the same number.
double level(double seconds) { return std::round(std::log(seconds) / kSameTime); }

double work_s(const StepCost& cost) {
  double sum = 0;
  for (const PhaseCost& phase : cost.phases) {
    for (const double seconds : phase.seconds) sum += seconds;
  }
  return sum;
}

struct Bounded {
  Candidate candidate;
  double bound_s;
  double work_s;
  auto rank() const { return std::tuple(level(bound_s), work_s); }
};

struct Predicted {
  Candidate candidate;
  double step_s;
  std::int64_t written_bytes;
  std::int64_t memory_bytes;
  auto rank() const { return std::tuple(level(step_s), written_bytes, memory_bytes, step_s); }
};

template <typename T>
void sort_by_rank(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const T& a, const T& b) { return a.rank() < b.rank(); });
}

class PlanSearch {
 public:
  PlanSearch(const SearchSpace& space, const SearchPlace& place, const StepModel& model)
      : candidates_(space, place), model_(model) {}

  std::vector<RankedPlan> run(std::size_t count) {
    std::vector<Predicted> predicted = predict(bounded(), std::max(count, kRefinedMin));
    for (Predicted& plan : predicted) refine(plan);
    sort_by_rank(predicted);
    if (predicted.size() > count) predicted.resize(count);
    std::vector<RankedPlan> ranked;
    for (const Predicted& plan : predicted) ranked.push_back(finished(plan.candidate));
    return ranked;
  }

 private:
  std::vector<Bounded> bounded() {
    std::map<std::string, Bounded> best;
    candidates_.for_each([&](const Candidate& candidate, const RunSetup& setup) {
      const StepCost cost = model_.cost(setup);
      Bounded bounded{candidate, cost.bound_s(), work_s(cost)};
      const auto [it, is_new] = best.try_emplace(shape_text(setup), bounded);
      if (!is_new && bounded.rank() < it->second.rank()) it->second = std::move(bounded);
    });
    std::vector<Bounded> list;
    for (auto& [shape, bounded] : best) list.push_back(std::move(bounded));
    sort_by_rank(list);
    return list;
  }

  // The `count` that are predicted best, in no order.
  std::vector<Predicted> predict(const std::vector<Bounded>& bounded, std::size_t count) {
    std::vector<Predicted> list;
    for (const Bounded& next : bounded) {
      const bool enough = list.size() >= count;
      if (list.size() == kPredictionsMax) break;
      if (enough) {
        std::nth_element(
            list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count - 1), list.end(),
            [](const Predicted& a, const Predicted& b) { return a.step_s < b.step_s; });
        if (next.bound_s > list[count - 1].step_s) break;
      }
      if (candidates_.plan(next.candidate)) list.push_back(prediction_of(next.candidate));
    }
    sort_by_rank(list);
    if (list.size() > count)
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
    return list;
  }

  // Of the candidate planned last.
  Predicted prediction_of(const Candidate& candidate) {
    const RunSetup& setup = candidates_.setup(candidate);
    const offload::Plan& plan = setup.plan;
    return {candidate, model_.predict(setup).step_s, plan.nvme_written_bytes(),
            plan.total_bytes(Tier::device) + plan.total_bytes(Tier::host)};
  }

  void refine(Predicted& best) {
    const auto consider = [&](const Candidate& other) {
      if (!candidates_.plan(other)) return;
      Predicted predicted = prediction_of(other);
      if (predicted.rank() < best.rank()) best = std::move(predicted);
    };
    const SearchSpace& space = candidates_.space();
    for (const int depth : space.prefetch) {
      Candidate other = best.candidate;
      other.options.prefetch = depth;
      consider(other);
    }
    for (const auto& size : space.chunk_sizes) {
      Candidate other = best.candidate;
      other.options.chunk_size = size;
      consider(other);
    }
  }

  RankedPlan finished(const Candidate& candidate) {
    const Candidate cut = candidates_.with_cut_budgets(candidate);
    const RunSetup& setup = candidates_.setup(cut);
    return {setup.options, setup, model_.cost(setup), model_.predict(setup)};
  }

  Candidates candidates_;
  const StepModel& model_;
};

}  // namespace

std::vector<RankedPlan> search_plans(const SearchSpace& space, const SearchPlace& place,
                                     const StepModel& model, int count) {
  std::vector<RankedPlan> plans =
      PlanSearch(space, place, model).run(static_cast<std::size_t>(count));
  if (plans.empty()) refuse_all(space, place);
  return plans;
}

std::vector<RunSetup> feasible_micro_batches(const SearchSpace& space, const SearchPlace& place) {
  std::vector<RunSetup> setups;
  for (const std::int64_t micro_batch : space.micro_batches) {
    SearchSpace one = space;
    one.micro_batches = {micro_batch};
    one.recompute = {true};
    // What holds least in memory first: it is likeliest to fit, and stages what it moves.
    std::reverse(one.placements.begin(), one.placements.end());
    std::reverse(one.activations.begin(), one.activations.end());
    if (auto setup = Candidates(one, place).first()) setups.push_back(std::move(*setup));
  }
  if (setups.empty()) refuse_all(space, place);
  return setups;
}

}  // namespace strata::engine
