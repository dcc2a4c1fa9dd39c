#include "engine/run/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

RunSetup make_plan_setup(const Options& options, const comm::Communicator& comm) {
  try {
    return make_run_setup(options, comm.topology(), comm.staging_bytes());
  } catch (const OutOfBudget& e) {
    if (options.json && comm.rank() == 0) {
      fmt::print("{}\n", nlohmann::json({{"fits", false}, {"reason", e.what()}}).dump());
    }
    throw;
  }
}

}  // namespace

int run_plan(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const RunSetup setup = agree(comm, [&] { return make_plan_setup(options, comm); });
  if (comm.rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", plan_json(setup).dump(2));
  } else {
    fmt::print("{}\n{}\nIt fits.\n", run_description(setup), plan_table(setup));
  }
  return 0;
}

}  // namespace strata::engine
