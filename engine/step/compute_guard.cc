#include "engine/step/compute_guard.h"

#include <exception>

#include "kernels/base/error.h"

namespace strata::engine {

ComputeGuard::~ComputeGuard() {
  if (std::uncaught_exceptions() > 0) {
    failure_.set(std::make_exception_ptr(Error("the run has ended")));
  }
  try {
    compute_.synchronize();
  } catch (...) {  // the run's failure, which has ended the work on every stream
  }
}

}  // namespace strata::engine
