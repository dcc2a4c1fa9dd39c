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

}  // namespace strata::engine
