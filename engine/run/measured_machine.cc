#include "engine/run/measured_machine.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "engine/cost/machine_cache.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/run_store.h"
#include "io/volume.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

// Space to measure the drives on; null without directories.
std::unique_ptr<io::Volume> measuring_volume(const Options& options) {
  io::VolumeOptions volume;
  volume.directories = store_directories(options);
  if (volume.directories.empty()) return nullptr;
  volume.capacity_bytes = measuring_bytes(kGiB);
  volume.engine = engine_options(options, io::choose_engine(io::parse_engine(options.io_engine)));
  try {
    return io::create_volume(volume, nullptr);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", store_option(options), e.what());
  }
}

// Whether all ranks say so. Collective.
bool all_agree(comm::Communicator& comm, bool mine) {
  const auto vote = static_cast<std::byte>(mine);
  std::vector<std::byte> votes(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::span(&vote, 1), votes);
  return std::all_of(votes.begin(), votes.end(), [](std::byte v) { return v != std::byte{0}; });
}

// One setup for each micro-batch that fits on all ranks. Collective.
std::vector<RunSetup> common_setups(SearchSpace& space, const SearchPlace& place,
                                    comm::Communicator& comm) {
  SearchSpace keeps_nothing = space;
  keeps_nothing.base = without_outputs(space.base);
  const std::vector<RunSetup> mine =
      agree(comm, [&] { return feasible_micro_batches(keeps_nothing, place); });
  std::vector<RunSetup> common;
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : space.micro_batches) {
    const auto found = std::find_if(mine.begin(), mine.end(), [&](const RunSetup& setup) {
      return setup.batch.micro_batch == size;
    });
    if (!all_agree(comm, found != mine.end())) continue;
    common.push_back(*found);
    sizes.push_back(size);
  }
  if (sizes.empty()) throw ConfigError("no --micro-batch fits on every rank");
  space.micro_batches = std::move(sizes);
  return common;
}

class MachineMeasurement {
 public:
  MachineMeasurement(Measuring measuring, Ranks& ranks, const RunSetup& setup)
      : measuring_(measuring),
        ranks_(ranks),
        workers_(setup.threads, setup.cpus),
        directories_(io::paths_of(store_directories(setup.options))) {}

  MicroBatchModel measure(const RunSetup& setup) {
    Budget host("host memory", setup.plan.host_memory_bytes);
    CpuDevice device({setup.plan.device_memory_bytes, -1}, host, workers_, ranks_.failure, nullptr);
    const Dtype arithmetic =
        setup.options.matmul_dtype == "f32" ? Dtype::f32 : setup.shape.precision;
    ops::attach_cpu_ops(device, setup.isa, setup.op_limits, arithmetic, {});
    const MachineIdentity identity = identify_machine(setup);
    MachineCache cache(machine_cache_path(identity), identity);
    MicroBatchModel model{rates(setup, device, cache), {}};
    model.compute = compute(setup, model.rates, device, cache);
    return model;
  }

  bool measured_some() const { return measured_some_; }

 private:
  MachineRates rates(const RunSetup& setup, CpuDevice& device, MachineCache& cache) {
    auto known = knows() ? cache.find_rates(setup, directories_) : std::nullopt;
    if (all_agree(ranks_.comm, known.has_value())) return *known;
    measured_some_ = true;
    std::unique_ptr<io::Volume> volume;
    if (!drives_) volume = agree(ranks_.comm, [&] { return measuring_volume(setup.options); });
    MachineRates rates = measure_machine(setup, device, volume.get(), ranks_.comm);
    if (!drives_) drives_ = rates.nvme;
    rates.nvme = *drives_;
    if (stores()) cache.store_rates(setup, directories_, rates);
    return rates;
  }

  ComputeCost compute(const RunSetup& setup, const MachineRates& rates, CpuDevice& device,
                      MachineCache& cache) {
    const auto known = knows() ? cache.find_compute(setup, rates) : std::nullopt;
    if (known) return *known;
    measured_some_ = true;
    ops::set_matmul_choices(device, rates.matmuls, rates.default_arithmetic);
    const ComputeCost cost = measure_compute(setup, device);
    if (stores()) cache.store_compute(setup, rates, cost);
    return cost;
  }

  bool knows() const { return measuring_ == Measuring::what_is_not_known; }
  bool stores() const { return ranks_.comm.topology().local_rank == 0; }

  const Measuring measuring_;
  Ranks& ranks_;
  WorkerSet workers_;
  std::vector<std::string> directories_;
  std::optional<DriveRates> drives_;  // once they are measured
  bool measured_some_ = false;
};

}  // namespace

MachineModel measure_for_search(SearchSpace& space, const SearchPlace& place, Measuring measuring,
                                Ranks& ranks) {
  const std::vector<RunSetup> setups = common_setups(space, place, ranks.comm);
  MachineMeasurement measurement(measuring, ranks, setups.front());
  MachineModel model;
  for (const RunSetup& setup : setups) {
    model.of_micro_batch.emplace(setup.batch.micro_batch, measurement.measure(setup));
  }
  model.origin = measurement.measured_some() ? "rates measured now"
                                             : "rates as measured before; --refresh measures anew";
  return model;
}

Options without_outputs(const Options& options) {
  const Options defaults;
  Options trial = options;
  if (trial.nvme.empty() && !trial.run.empty()) {
    fs::path folder = fs::absolute(trial.run);
    while (!fs::exists(folder)) folder = folder.parent_path();
    trial.nvme = folder.string();
  }
  trial.run.clear();
  trial.resume = false;
  trial.resume_step.reset();
  trial.resume_from.clear();
  trial.allow_change.clear();
  trial.checkpoint_every.reset();
  trial.checkpoint_to.clear();
  trial.export_to.clear();
  trial.export_every = 0;
  trial.val_data.clear();
  trial.val_fraction = 0;
  trial.sample_tokens = 0;
  trial.sample_every = 0;
  trial.sample_prompt = defaults.sample_prompt;
  trial.log.clear();
  trial.trace.clear();
  return trial;
}

}  // namespace strata::engine
