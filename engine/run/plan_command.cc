#include "engine/run/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/cost/machine_forecast.h"
#include "engine/data/training_data.h"
#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/plan/device_choice.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/auto_memory.h"
#include "engine/run/drive_lives.h"
#include "engine/run/run_length.h"
#include "engine/run/run_store.h"
#include "engine/run/search_target.h"
#include "engine/run/storage_check.h"
#include "engine/run/tokenizer_check.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

SearchTarget target_of(const Options& options, const comm::Communicator& comm) {
  SearchTarget target;
  if (!options.machine.empty()) {
    target = described_target(options);
    const MemoryBudgets budgets = even_budgets(target.options, target.place);
    target.options = with_budgets(target.options, budgets, target.place.topology);
    return target;
  }
  target.options = options;
  target.place.topology = comm.topology();
  target.place.comm_staging = comm.staging_bytes();
  return target;
}

struct Planned {
  RunSetup setup;
  std::optional<MachineDescription> machine;
  std::optional<MachineForecast> forecast;  // where the machine's rates are known
  std::string rates;                        // where they are from
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

// In the place of directories, the drives of the described machine.
NvmeSpace described_space(const MachineDescription& machine, const RunSetup& setup) {
  const DriveDescription& drive = machine.drive;
  NvmeSpace space;
  space.needed_bytes = store_bytes(setup, static_cast<std::size_t>(std::max(1, drive.count)));
  for (int d = 1; d <= drive.count; ++d) {
    space.directories.push_back(
        {fmt::format("drive {} ({})", d, drive.name), drive.capacity_bytes, {}});
  }
  const std::int64_t capacity_bytes = drive.count * drive.capacity_bytes;
  if (space.needed_bytes > capacity_bytes) {
    throw_error<ConfigError>(
        "--machine: the state takes {} of NVMe on each host, and its drives have {}",
        format_bytes(space.needed_bytes), format_bytes(capacity_bytes));
  }
  return space;
}

// What train would refuse is refused here too; a program that asked for JSON gets it even then.
Planned make_planned(const SearchTarget& target, const Ranks& ranks) {
  const Options& options = target.options;
  const bool prints_json = options.json && ranks.comm.rank() == 0;
  Planned planned;
  try {
    planned.setup = make_run_setup(options, target.place.topology, target.place.comm_staging,
                                   offload::kBlockElements, Purpose::training, ranks.device);
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
    planned.nvme =
        target.machine ? described_space(*target.machine, setup) : check_nvme_space(setup);
  } catch (const ConfigError& e) {
    if (prints_json) {
      const std::size_t directories = std::max<std::size_t>(1, store_directories(options).size());
      print_json(refusal_json(e, offload::Tier::nvme, store_bytes(setup, directories)));
    }
    throw;
  }
  planned.machine = target.machine;
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

std::string writes_text(const Planned& planned) {
  if (planned.steps == 0 || planned.nvme.needed_bytes == 0) return "";
  const RunSetup& setup = planned.setup;
  return fmt::format(
      "The run would write {}\n",
      forecast_text(planned.writes, planned.steps, planned.evaluations,
                    setup.topology.local_world_size,
                    planned.machine ? drives_of(*planned.machine) : drives_of(setup.options)));
}

nlohmann::json report_json(const Planned& planned) {
  nlohmann::json json = plan_json(planned.setup);
  json["storage"] = nvme_json(planned.nvme);
  if (planned.steps > 0) {
    json["storage"]["run_written_bytes"] =
        planned.writes.total_bytes(planned.steps, planned.evaluations);
  }
  if (planned.forecast) {
    json["machine"] = forecast_json(*planned.forecast, planned.steps);
    json["machine"]["rates"] = planned.rates;
  }
  if (planned.machine) json["machine"]["name"] = planned.machine->name;
  return json;
}

std::string report_text(const Planned& planned) {
  std::string text = run_description(planned.setup);
  if (!planned.data.empty()) text += fmt::format("data       {}\n", planned.data);
  if (!planned.tokenizer_warning.empty()) {
    text += fmt::format("tokenizer  {}\n", planned.tokenizer_warning);
  }
  if (planned.machine) text += fmt::format("machine    {}\n", planned.machine->name);
  text +=
      fmt::format("device     {}\n\n{}\n", device_choice(planned.setup), plan_table(planned.setup));
  if (planned.forecast) {
    text += fmt::format("{}\n{}\n", planned.rates, forecast_text(*planned.forecast, planned.steps));
  } else {
    text += "time of a step: not known; strata tune with these options measures this machine\n\n";
  }
  return text + writes_text(planned) + verdict(planned.nvme) + "\n";
}

}  // namespace

int run_plan(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const Options chosen = asks_for_auto_memory(options)
                             ? with_auto_memory(options, Measuring::nothing, ranks)
                             : options;
  const SearchTarget target = agree(comm, [&] { return target_of(chosen, comm); });
  Planned planned = agree(comm, [&] { return make_planned(target, ranks); });
  if (const auto model = known_model(target, planned.setup, ranks)) {
    const StepModel steps = model->step_model();
    planned.forecast = {steps.cost(planned.setup), steps.predict(planned.setup),
                        planned.setup.batch.tokens_per_step()};
    planned.rates = model->origin;
  }
  if (comm.rank() != 0) return 0;
  if (options.json) {
    print_json(report_json(planned));
  } else {
    fmt::print("{}", report_text(planned));
  }
  return 0;
}

}  // namespace strata::engine
