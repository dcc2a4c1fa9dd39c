#include "engine/run/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/data/training_data.h"
#include "engine/options/option_check.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/run/storage_check.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

struct Planned {
  RunSetup setup;
  NvmeSpace nvme;
};

void print_json(const nlohmann::json& object) { fmt::print("{}\n", object.dump(2)); }

nlohmann::json refusal_json(const std::exception& error, offload::Tier tier,
                            std::int64_t needed_bytes) {
  return {{"fits", false},
          {"reason", error.what()},
          {"tier", offload::name_of(tier)},
          {"needed_bytes", needed_bytes}};
}

// What train would refuse is refused here too; a program that asked for JSON gets it even then.
Planned make_planned(const Options& options, const comm::Communicator& comm) {
  const bool prints_json = options.json && comm.rank() == 0;
  Planned planned;
  try {
    planned.setup = make_run_setup(options, comm.topology(), comm.staging_bytes());
  } catch (const PlanDoesNotFit& e) {
    const offload::Shortfall& shortfall = e.shortfall();
    if (prints_json) {
      nlohmann::json json = refusal_json(e, shortfall.tier, shortfall.needed_bytes);
      json["budget_bytes"] = shortfall.budget_bytes;
      print_json(json);
    }
    throw;
  }
  const RunSetup& setup = planned.setup;
  if (!options.data.empty()) {
    open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
  }
  try {
    planned.nvme = check_nvme_space(setup);
  } catch (const ConfigError& e) {
    if (prints_json) {
      const std::int64_t needed_bytes =
          setup.plan.total_bytes(offload::Tier::nvme) * setup.topology.local_world_size;
      print_json(refusal_json(e, offload::Tier::nvme, needed_bytes));
    }
    throw;
  }
  return planned;
}

nlohmann::json nvme_json(const NvmeSpace& nvme) {
  return {{"directory", nvme.directory.empty() ? nlohmann::json() : nlohmann::json(nvme.directory)},
          {"needed_bytes", nvme.needed_bytes},
          {"free_bytes", nvme.free_bytes ? nlohmann::json(*nvme.free_bytes) : nlohmann::json()}};
}

std::string verdict(const NvmeSpace& nvme) {
  if (nvme.needed_bytes == 0 || !nvme.directory.empty()) return "It fits.";
  return fmt::format("It fits, with a directory for NVMe (--nvme or --run) that has {} free.",
                     format_bytes(nvme.needed_bytes));
}

}  // namespace

int run_plan(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const Planned planned = agree(comm, [&] { return make_planned(options, comm); });
  if (comm.rank() != 0) return 0;
  if (options.json) {
    nlohmann::json json = plan_json(planned.setup);
    json["storage"] = nvme_json(planned.nvme);
    print_json(json);
  } else {
    fmt::print("{}device     {}\n\n{}\n{}\n", run_description(planned.setup),
               resolve_device(options), plan_table(planned.setup), verdict(planned.nvme));
  }
  return 0;
}

}  // namespace strata::engine
