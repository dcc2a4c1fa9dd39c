#include "engine/run/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/data/training_data.h"
#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/run/run_store.h"
#include "engine/run/storage_check.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

struct Planned {
  RunSetup setup;
  NvmeSpace nvme;
};

void print_json(const nlohmann::json& object) { fmt::print("{}\n", json_text(object)); }

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
      const std::size_t directories = store_directories(options).size();
      print_json(refusal_json(e, offload::Tier::nvme, store_bytes(setup, directories)));
    }
    throw;
  }
  return planned;
}

nlohmann::json nvme_json(const NvmeSpace& nvme) {
  nlohmann::json directories = nlohmann::json::array();
  for (const NvmeDirectory& directory : nvme.directories) {
    directories.push_back(
        {{"path", directory.path},
         {"free_bytes",
          directory.free_bytes ? nlohmann::json(*directory.free_bytes) : nlohmann::json()}});
  }
  return {{"directories", std::move(directories)}, {"needed_bytes", nvme.needed_bytes}};
}

std::string verdict(const NvmeSpace& nvme) {
  if (nvme.needed_bytes == 0) return "It fits.";
  const std::string needed = format_bytes(nvme.needed_bytes);
  if (nvme.directories.empty()) {
    return fmt::format("It fits, with a directory for NVMe (--nvme or --run) that has {} free.",
                       needed);
  }
  std::string text = fmt::format("It fits: it needs {} of NVMe;", needed);
  for (const NvmeDirectory& directory : nvme.directories) {
    text += fmt::format(" {} has {} free,", directory.path, format_bytes(*directory.free_bytes));
  }
  text.back() = '.';
  return text;
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
