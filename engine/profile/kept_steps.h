// KeptSteps: of the steps of a run so far, the slowest and the one nearest to the median, with
// their spans. Chosen as steps go by, in bounded memory: the median is that of a histogram whose
// bins are 1 % wide. The first step of a process, which warms up, is kept only until there is
// another. Thread contract: one thread. Allocates where a step that is kept has more spans than any
// before.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/profile/step_profile.h"

namespace strata::engine {

struct KeptStep {
  StepProfile profile;
  std::vector<Tracer::Span> spans;
};

class KeptSteps {
 public:
  void add(const StepProfile& profile, const std::vector<Tracer::Span>& spans);

  std::int64_t added() const { return added_; }
  // Of no meaning before the first step.
  const KeptStep& slowest() const { return slowest_; }
  const KeptStep& median() const { return median_; }

 private:
  static constexpr int kBins = 2800;  // from 1 µs to 10 days
  double median_ns() const;

  std::int64_t added_ = 0;
  std::array<std::int64_t, kBins> bins_{};  // steps by duration; without the first
  KeptStep slowest_;
  KeptStep median_;
};

}  // namespace strata::engine
