#include "engine/run/search_target.h"

#include <limits>
#include <memory>
#include <utility>

#include "engine/checkpoint/store_pointer.h"
#include "engine/options/count_text.h"
#include "engine/plan/memory_budgets.h"
#include "engine/run/run_store.h"
#include "engine/run/status_line.h"
#include "io/drive_space.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// `setup`: any with its micro-batch.
MicroBatchModel described_model(const MachineDescription& machine, RunSetup setup) {
  setup.shape.recompute = true;
  MachineRates rates = rates_of(machine, setup);
  const ComputeCost compute = derive_compute(setup, rates);
  return {std::move(rates), compute};
}

// Of one rank. A run that has a store has its space.
std::int64_t free_storage_bytes(const Options& options, int ranks) {
  if (options.resume && read_store_pointer(options.run)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  const Options kept = without_outputs(options);  // whose --run need not exist yet
  const std::vector<std::string> paths = io::paths_of(store_directories(kept));
  std::int64_t bytes = 0;
  try {
    const std::vector<io::DriveSpace> drives = io::look_at_drives(paths);
    for (std::size_t d = 0; d < drives.size(); ++d) {
      if (drives[d].file_system == static_cast<int>(d)) bytes += drives[d].free_bytes;
    }
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", store_option(options), e.what());
  }
  return bytes / ranks;
}

// The model, which shows how far the search is that asks it.
StepModel watched(const StepModel& model, StatusLine& status) {
  struct Counts {
    std::int64_t bounds = 0;
    std::int64_t predictions = 0;
  };
  const auto counts = std::make_shared<Counts>();
  const auto count = [counts, &status](std::int64_t& one) {
    ++one;
    if (!status.is_due()) return;
    status.show(fmt::format("searching: {} compared, {} predicted",
                            count_text(counts->bounds, "plan"),
                            count_text(counts->predictions, "step")));
  };
  return {[=](const RunSetup& setup) {
            count(counts->bounds);
            return model.cost(setup);
          },
          [=](const RunSetup& setup) {
            count(counts->predictions);
            return model.predict(setup);
          }};
}

}  // namespace

SearchPlace place_of(const MachineDescription& machine, const Options& described) {
  SearchPlace place;
  place.topology = topology_of(machine);
  place.comm_staging = comm_staging_of(machine, described.device);
  place.memory_bytes = machine.host.usable_bytes() / machine.ranks_per_host;
  if (described.device == "cuda") place.device_bytes = machine.gpu.usable_bytes();
  place.storage_bytes = machine.drive.count * machine.drive.capacity_bytes / machine.ranks_per_host;
  return place;
}

SearchTarget described_target(const Options& options) {
  SearchTarget target;
  target.machine = read_machine_description(options.machine);
  target.options = options_for(*target.machine, options);
  target.place = place_of(*target.machine, target.options);
  return target;
}

SearchTarget make_search_target(const Options& options, const Ranks& ranks) {
  if (!options.machine.empty()) return described_target(options);
  const comm::Topology& topology = ranks.comm.topology();
  const MemoryBudgets budgets =  // refuses more than there is
      resolve_memory_budgets(options, topology, ranks.device);
  SearchTarget target;
  target.options = options;
  target.place.topology = topology;
  target.place.comm_staging = ranks.comm.staging_bytes();
  target.place.device = ranks.device;
  if (ranks.device.gpu) {
    target.place.device_bytes = budgets.device_bytes / kMiB * kMiB;
    if (!options.device_memory) target.place.device.gpu->gpu.context_bytes += kContextSlackBytes;
  }
  target.place.memory_bytes = usable_memory_bytes(topology);
  target.place.storage_bytes = free_storage_bytes(options, topology.local_world_size);
  return target;
}

MachineModel model_of_target(const SearchTarget& target, SearchSpace& space, Measuring measuring,
                             Ranks& ranks) {
  if (!target.machine) return measure_for_search(space, target.place, measuring, ranks);
  MachineModel model;
  model.origin = fmt::format("on {}, as described", target.machine->name);
  agree(ranks.comm, [&] {
    const std::vector<RunSetup> setups = feasible_micro_batches(space, target.place);
    space.micro_batches.clear();
    for (const RunSetup& setup : setups) {
      space.micro_batches.push_back(setup.options.micro_batch);
      model.of_micro_batch.emplace(setup.options.micro_batch,
                                   described_model(*target.machine, setup));
    }
  });
  return model;
}

std::vector<RankedPlan> find_plans(const SearchTarget& target, const SearchSpace& space,
                                   const MachineModel& model, int count,
                                   const comm::Communicator& comm) {
  StatusLine status(comm);
  return search_plans(space, target.place, watched(model.step_model(), status), count);
}

std::optional<MachineModel> known_model(const SearchTarget& target, const RunSetup& setup,
                                        Ranks& ranks) {
  if (!target.machine) return measured_before(setup, ranks);
  MachineModel model;
  model.origin = fmt::format("on {}, as described", target.machine->name);
  agree(ranks.comm, [&] {
    model.of_micro_batch.emplace(setup.options.micro_batch,
                                 described_model(*target.machine, setup));
  });
  return model;
}

}  // namespace strata::engine
