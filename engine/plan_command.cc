#include "engine/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/plan_report.h"
#include "engine/session.h"
#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/machine.h"

namespace strata::engine {

int run_plan(const Options& options) {
  undo_default_binding();
  FailureLatch failure;
  const auto comm = make_communicator(options, failure);
  RunSetup setup;
  try {
    setup = make_run_setup(options, comm->topology(), comm->staging_bytes());
  } catch (const OutOfBudget& e) {
    if (options.json && comm->rank() == 0) {
      fmt::print("{}\n", nlohmann::json({{"fits", false}, {"reason", e.what()}}).dump());
    }
    throw;
  }
  if (comm->rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", plan_json(setup).dump(2));
  } else {
    fmt::print("{}\n{}\nIt fits.\n", run_description(setup), plan_table(setup));
  }
  return 0;
}

}  // namespace strata::engine
