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
constexpr std::size_t kPredictionsMax = 60;
constexpr std::size_t kRefinedMin = 5;

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
  std::string outline;
  double step_s;
  std::int64_t written_bytes;
  std::int64_t memory_bytes;
  auto rank() const { return std::tuple(level(step_s), written_bytes, memory_bytes, step_s); }
  // Less memory is no reason for shallow prefetch and small chunks, whose requests no model times.
  auto gain_rank() const { return std::tuple(level(step_s), written_bytes); }
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
    const std::size_t refined = std::max(count, kRefinedMin);
    std::vector<Predicted> predicted = predict(bounded(), refined);
    if (predicted.size() > refined) predicted.resize(refined);
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

  // The best of each outline, best first; at least the best `count`, where there are so many.
  std::vector<Predicted> predict(const std::vector<Bounded>& bounded, std::size_t count) {
    std::vector<Predicted> list;
    std::size_t predictions = 0;
    for (const Bounded& next : bounded) {
      if (predictions == kPredictionsMax) break;
      if (list.size() >= count && next.bound_s > list[count - 1].step_s) break;
      if (!candidates_.plan(next.candidate)) continue;
      ++predictions;
      Predicted predicted = prediction_of(next.candidate);
      const auto same = std::find_if(list.begin(), list.end(), [&](const Predicted& other) {
        return other.outline == predicted.outline;
      });
      if (same == list.end()) {
        list.push_back(std::move(predicted));
      } else if (predicted.rank() < same->rank()) {
        *same = std::move(predicted);
      }
      sort_by_rank(list);
    }
    return list;
  }

  // Of the candidate planned last.
  Predicted prediction_of(const Candidate& candidate) {
    const RunSetup& setup = candidates_.setup(candidate);
    const offload::Plan& plan = setup.plan;
    return {candidate, outline_text(setup), model_.predict(setup).step_s, plan.nvme_written_bytes(),
            plan.total_bytes(Tier::device) + plan.total_bytes(Tier::host)};
  }

  void refine(Predicted& best) {
    const auto consider = [&](const Candidate& other) {
      if (!candidates_.plan(other)) return;
      Predicted predicted = prediction_of(other);
      if (predicted.gain_rank() < best.gain_rank()) best = std::move(predicted);
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
