// Candidates: the plans of a SearchSpace that fit, made one at a time: what plan_search.h walks.
// Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/tune/plan_search.h"

namespace strata::engine {

struct Candidate {
  Options options;
  MemoryBudgets budgets;
  std::size_t shape = 0;  // of a step: which resolved setup it changes
};

class Candidates {
 public:
  // Throws ConfigError where the options contradict the model.
  Candidates(const SearchSpace& space, const SearchPlace& place);

  const SearchSpace& space() const { return space_; }

  // Those that fit, but for the depths of prefetch and sizes of chunks: one of each.
  using Visit = std::function<void(const Candidate&, const RunSetup&)>;
  void for_each(const Visit& visit);
  // Any one of them.
  std::optional<RunSetup> first();

  // Plans it; false: it does not fit.
  bool plan(const Candidate& candidate);
  // Of the candidate of its shape that was planned last, with its plan.
  const RunSetup& setup(const Candidate& candidate) const { return shapes_[candidate.shape]; }

  // One that fits, planned, with the budgets that are not given cut down to what its plan takes.
  Candidate with_cut_budgets(const Candidate& candidate);

 private:
  // False once `visit` wants no more.
  using VisitSome = std::function<bool(const Candidate&, const RunSetup&)>;
  void visit_until(const VisitSome& visit);
  bool plan_with_some_prefetch(Candidate& candidate);

  const SearchSpace& space_;
  const SearchPlace& place_;
  std::vector<RunSetup> shapes_;
};

// How a step is divided, and which tenths of each kind of state lie on which tier: plans that share
// it take nearly as long.
std::string shape_text(const RunSetup& setup);
// How a step is divided, and the tier of most of each kind: plans that share it are of one sort to
// a user.
std::string outline_text(const RunSetup& setup);

// Says what is missing for any plan at all. Throws PlanDoesNotFit or ConfigError.
[[noreturn]] void refuse_all(const SearchSpace& space, const SearchPlace& place);

}  // namespace strata::engine
