#include "engine/cost/compute_cost.h"

namespace strata::engine {

const char* name_of(Work work) {
  switch (work) {
    case Work::matmul:
      return "matmul";
    case Work::attention:
      return "attention";
    case Work::elementwise:
      break;
  }
  return "elementwise";
}

WorkSeconds& WorkSeconds::operator+=(const WorkSeconds& other) {
  for (std::size_t i = 0; i < of.size(); ++i) of[i] += other.of[i];
  return *this;
}

WorkSeconds WorkSeconds::operator*(double factor) const {
  WorkSeconds scaled = *this;
  for (double& seconds : scaled.of) seconds *= factor;
  return scaled;
}

namespace {

template <typename Cost>
auto parts_of(Cost& cost) {
  return std::array{&cost.embedding_forward, &cost.block_forward, &cost.block_recompute,
                    &cost.block_backward,    &cost.head_forward,  &cost.head_backward,
                    &cost.embedding_backward};
}

}  // namespace

std::array<WorkSeconds*, ComputeCost::kParts> ComputeCost::parts() { return parts_of(*this); }

std::array<const WorkSeconds*, ComputeCost::kParts> ComputeCost::parts() const {
  return parts_of(*this);
}

}  // namespace strata::engine
