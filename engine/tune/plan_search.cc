#include "engine/tune/plan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
constexpr std::size_t kPredictionsMax = 300;
constexpr std::size_t kRefinedMin = 5;

// Bounds that are nearly the same have mostly the same number.
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

// What a plan is judged by.
struct Standing {
  double step_s;
  std::int64_t written_bytes;
  std::int64_t read_bytes;
  std::int64_t memory_bytes;

  Standing(const offload::Plan& plan, double step_s)
      : step_s(step_s),
        written_bytes(plan.nvme_written_bytes()),
        read_bytes(plan.nvme_read_bytes()),
        memory_bytes(plan.total_bytes(Tier::device) + plan.total_bytes(Tier::host)) {}

  bool takes_as_long(double other_s) const { return step_s <= (1 + kSameTime) * other_s; }
  // Among those that take as long.
  auto needs() const { return std::tuple(written_bytes, memory_bytes, step_s); }
  bool equals(const Standing& other) const {
    return takes_as_long(other.step_s) && other.takes_as_long(step_s) &&
           written_bytes == other.written_bytes && read_bytes == other.read_bytes &&
           ceil_div(memory_bytes, kMiB) == ceil_div(other.memory_bytes, kMiB);
  }
};

struct Predicted {
  Candidate candidate;
  std::string outline;
  Standing standing;
};

struct Finished {
  RankedPlan plan;
  Standing standing;
};

// Next comes always, of those that take as long as the fastest one left, the one that needs least.
template <typename T>
void sort_best_first(std::vector<T>& list) {
  for (auto next = list.begin(); next != list.end(); ++next) {
    const double fastest_s = std::min_element(next, list.end(), [](const T& a, const T& b) {
                               return a.standing.step_s < b.standing.step_s;
                             })->standing.step_s;
    const auto best = std::min_element(next, list.end(), [&](const T& a, const T& b) {
      const auto rank = [&](const Standing& standing) {
        return std::tuple(!standing.takes_as_long(fastest_s), standing.needs());
      };
      return rank(a.standing) < rank(b.standing);
    });
    std::rotate(next, best, best + 1);
  }
}

// Of those that are the same to `same`, the first stays.
template <typename T, typename Same>
void erase_repeated(std::vector<T>& list, const Same& same) {
  for (auto one = list.begin(); one != list.end(); ++one) {
    list.erase(
        std::remove_if(one + 1, list.end(), [&](const T& other) { return same(*one, other); }),
        list.end());
  }
}

template <typename T>
void cut(std::vector<T>& list, std::size_t count) {
  if (list.size() > count)
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
}

// Of the `count` fastest outlines the slowest; infinite where there are fewer.
double slowest_kept_s(const std::map<std::string, double>& fastest_s, std::size_t count) {
  if (fastest_s.size() < count) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted;
  for (const auto& [outline, step_s] : fastest_s) sorted.push_back(step_s);
  std::sort(sorted.begin(), sorted.end());
  return sorted[count - 1];
}

// What holds least in memory first: it is likeliest to fit, and stages what it moves.
std::optional<RunSetup> some_setup(SearchSpace space, const SearchPlace& place) {
  space.recompute = {true};
  std::reverse(space.placements.begin(), space.placements.end());
  std::reverse(space.activations.begin(), space.activations.end());
  return Candidates(space, place).first();
}

class PlanSearch {
 public:
  PlanSearch(const SearchSpace& space, const SearchPlace& place, const StepModel& model)
      : candidates_(space, place), model_(model) {}

  std::vector<RankedPlan> run(std::size_t count) {
    std::vector<Finished> finished;
    for (Predicted& plan : predict(bounded(), std::max(count, kRefinedMin))) {
      refine(plan);
      finished.push_back(finish(plan.candidate));
    }
    sort_best_first(finished);
    erase_repeated(finished, [](const Finished& a, const Finished& b) {
      return a.standing.equals(b.standing);
    });
    cut(finished, count);
    std::vector<RankedPlan> ranked;
    for (Finished& one : finished) ranked.push_back(std::move(one.plan));
    return ranked;
  }

 private:
  // The best of each shape, lowest bound first.
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
    std::stable_sort(list.begin(), list.end(),
                     [](const Bounded& a, const Bounded& b) { return a.bound_s < b.bound_s; });
    return list;
  }

  // The best `count` outlines, or fewer where there are not so many, best first.
  std::vector<Predicted> predict(const std::vector<Bounded>& bounded, std::size_t count) {
    std::vector<Predicted> list;
    std::map<std::string, double> fastest_s;  // of each outline
    for (const Bounded& next : bounded) {
      if (list.size() == kPredictionsMax) break;
      if (next.bound_s > (1 + kSameTime) * slowest_kept_s(fastest_s, count)) break;
      if (!candidates_.plan(next.candidate)) continue;
      Predicted predicted = prediction_of(next.candidate);
      const double step_s = predicted.standing.step_s;
      const auto [it, is_new] = fastest_s.try_emplace(predicted.outline, step_s);
      it->second = std::min(it->second, step_s);
      list.push_back(std::move(predicted));
    }
    sort_best_first(list);
    erase_repeated(list,
                   [](const Predicted& a, const Predicted& b) { return a.outline == b.outline; });
    cut(list, count);
    return list;
  }

  // Of the candidate planned last.
  Predicted prediction_of(const Candidate& candidate) {
    const RunSetup& setup = candidates_.setup(candidate);
    return {candidate, outline_text(setup), {setup.plan, model_.predict(setup).step_s}};
  }

  // Less memory is no reason for shallow prefetch and small chunks, whose requests no model times.
  void refine(Predicted& best) {
    const auto consider = [&](const Candidate& other) {
      if (!candidates_.plan(other)) return;
      Predicted predicted = prediction_of(other);
      if (best.standing.takes_as_long(predicted.standing.step_s)) return;
      best = std::move(predicted);
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

  Finished finish(const Candidate& candidate) {
    const Candidate cut = candidates_.with_cut_budgets(candidate);
    const RunSetup& setup = candidates_.setup(cut);
    RankedPlan plan{setup.options, setup, model_.cost(setup), model_.predict(setup)};
    const Standing standing(plan.setup.plan, plan.prediction.step_s);
    return {std::move(plan), standing};
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
    if (auto setup = some_setup(std::move(one), place)) setups.push_back(std::move(*setup));
  }
  if (setups.empty()) refuse_all(space, place);
  return setups;
}

std::optional<RunSetup> feasible_formats(const SearchSpace& space, const SearchPlace& place,
                                         const std::string& moments,
                                         const std::string& grad_dtype) {
  SearchSpace one = space;
  one.moments = {moments};
  one.grad_dtypes = {grad_dtype};
  return some_setup(std::move(one), place);
}

}  // namespace strata::engine
