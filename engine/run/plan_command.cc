#include "engine/run/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/data/training_data.h"
#include "engine/options/endurance.h"
#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/run_length.h"
#include "engine/run/run_store.h"
#include "engine/run/storage_check.h"
#include "engine/run/tokenizer_check.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

struct Planned {
  RunSetup setup;
  NvmeSpace nvme;
  std::string data;               // what it is, in words; "": none is named
  std::string tokenizer_warning;  // "": checked, or there is none
  std::int64_t steps = 0;         // 0: the options do not say
  std::int64_t evaluations = 0;
  WriteForecast writes;
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
  TrainingData data;
  if (!options.data.empty()) {
    data = open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
  }
  if (data.train != nullptr) {
    planned.data = data.description();
    planned.tokenizer_warning = check_tokenizer(setup, data);
  }
  planned.steps = step_count(setup, data);
  planned.evaluations = evaluation_count(setup, data);
  planned.writes = forecast_writes(setup, evaluation_sequences(setup, data));
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

// Bandwidths are not measured here: where one is not given, all count as equal.
std::vector<DriveLife> drives_of(const Options& options) {
  const std::vector<io::VolumeDirectory> directories = store_directories(options);
  const auto endurance = parse_endurance(options.nvme_endurance, directories.size());
  double sum = 0;
  bool given = true;
  for (const io::VolumeDirectory& directory : directories) {
    sum += directory.bytes_per_second;
    given = given && directory.bytes_per_second > 0;
  }
  std::vector<DriveLife> drives;
  for (std::size_t d = 0; d < directories.size(); ++d) {
    const double share =
        given ? directories[d].bytes_per_second / sum : 1 / static_cast<double>(directories.size());
    drives.push_back({directories[d].path, share, endurance.empty() ? 0 : endurance[d]});
  }
  return drives;
}

std::string writes_text(const Planned& planned) {
  if (planned.steps == 0 || planned.nvme.needed_bytes == 0) return "";
  const RunSetup& setup = planned.setup;
  return fmt::format("The run would write {}\n",
                     forecast_text(planned.writes, planned.steps, planned.evaluations,
                                   setup.topology.local_world_size, drives_of(setup.options)));
}

}  // namespace

int run_plan(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const Planned planned = agree(comm, [&] { return make_planned(options, comm); });
  if (comm.rank() != 0) return 0;
  if (options.json) {
    nlohmann::json json = plan_json(planned.setup);
    json["storage"] = nvme_json(planned.nvme);
    if (planned.steps > 0) {
      json["storage"]["run_written_bytes"] =
          planned.writes.total_bytes(planned.steps, planned.evaluations);
    }
    print_json(json);
  } else {
    std::string data;
    if (!planned.data.empty()) data = fmt::format("data       {}\n", planned.data);
    if (!planned.tokenizer_warning.empty()) {
      data += fmt::format("tokenizer  {}\n", planned.tokenizer_warning);
    }
    fmt::print("{}{}device     {}\n\n{}\n{}{}\n", run_description(planned.setup), data,
               resolve_device(options), plan_table(planned.setup), writes_text(planned),
               verdict(planned.nvme));
  }
  return 0;
}

}  // namespace strata::engine
