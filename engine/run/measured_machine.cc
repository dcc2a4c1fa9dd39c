#include "engine/run/measured_machine.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "engine/cost/machine_cache.h"
#include "engine/cost/measured_rates.h"
#include "engine/options/option_list.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/compute_device.h"
#include "engine/run/error_report.h"
#include "engine/run/run_store.h"
#include "engine/run/status_line.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/worker_set.h"

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

SearchSpace without_outputs(SearchSpace space) {
  space.base = without_outputs(space.base);
  return space;
}

// All of its budgets, for nothing else is held while a search measures.
RunSetup with_all_room(RunSetup setup) {
  offload::Plan& plan = setup.plan;
  for (const auto& [tier, budget] : {std::pair(offload::Tier::device, plan.device_memory_bytes),
                                     std::pair(offload::Tier::host, plan.host_memory_bytes)}) {
    plan.buffers.push_back({tier, "measurement", budget - plan.total_bytes(tier)});
  }
  return setup;
}

// One setup for each micro-batch that fits on all ranks. Collective.
std::vector<RunSetup> common_setups(SearchSpace& space, const SearchPlace& place,
                                    comm::Communicator& comm) {
  const std::vector<RunSetup> mine =
      agree(comm, [&] { return feasible_micro_batches(without_outputs(space), place); });
  std::vector<RunSetup> common;
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : space.micro_batches) {
    const auto found = std::find_if(mine.begin(), mine.end(), [&](const RunSetup& setup) {
      return setup.options.micro_batch == size;
    });
    if (!all_agree(comm, found != mine.end())) continue;
    common.push_back(with_all_room(*found));
    sizes.push_back(size);
  }
  if (sizes.empty()) throw AgreedFailure("no --micro-batch fits on every rank", kExitUsage);
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

  // Nothing where it is not known and must not be measured. Collective.
  std::optional<MicroBatchModel> measure(const RunSetup& setup) {
    MachineCache cache = open_cache(setup);
    std::optional<ComputeDevice> made;
    const MakeDevice device = [&]() -> Device& {
      if (!made) made.emplace(setup, workers_, ranks_.failure, nullptr);
      return *made->device;
    };
    std::optional<MachineRates> found = rates(setup, device, cache);
    if (!found) return std::nullopt;
    const std::optional<ComputeCost> cost =
        agree(ranks_.comm, [&] { return compute(setup, *found, device, cache); });
    note(cache);
    if (!all_agree(ranks_.comm, cost.has_value())) return std::nullopt;
    return MicroBatchModel{std::move(*found), *cost};
  }

  // Of updates in the setup's formats; nothing as above.
  std::optional<double> optimizer(const RunSetup& setup) {
    MachineCache cache = open_cache(setup);
    const auto known = knows() ? cache.find_optimizer(setup) : std::nullopt;
    if (known || !measures()) return known;
    measured_some_ = true;
    const ComputeDevice made(setup, workers_, ranks_.failure, nullptr);
    const double rate = CoreMeasurement(setup, *made.device, workers_).optimizer();
    if (stores()) cache.store_optimizer(setup, rate);
    note(cache);
    return rate;
  }

  std::string origin() const {
    return measured_some_ ? "rates measured now"
                          : "rates as measured before; strata tune --refresh measures anew";
  }

  // Says on one rank of a host what became of its cache, if anything did.
  void report_cache() const {
    if (stores() && !note_.empty()) print_notice(note_);
  }

 private:
  using MakeDevice = std::function<Device&()>;  // when it is first measured

  MachineCache open_cache(const RunSetup& setup) {
    const MachineIdentity identity = identify_machine(setup);
    MachineCache cache(machine_cache_path(identity), identity);
    note(cache);
    return cache;
  }

  void note(const MachineCache& cache) {
    if (note_.empty()) note_ = cache.note();
  }

  std::optional<MachineRates> rates(const RunSetup& setup, const MakeDevice& device,
                                    MachineCache& cache) {
    auto known = agree(ranks_.comm, [&] {
      return knows() ? cache.find_rates(setup, directories_) : std::nullopt;
    });
    if (all_agree(ranks_.comm, known.has_value())) return known;
    if (!measures()) return std::nullopt;
    measured_some_ = true;
    const std::unique_ptr<io::Volume> volume =
        agree(ranks_.comm, [&]() -> std::unique_ptr<io::Volume> {
          Device& its_device = device();
          if (!setup.device.gpu) forced_arithmetic(setup, static_cast<CpuDevice&>(its_device));
          return drives_ ? nullptr : measuring_volume(setup.options);
        });
    MachineRates rates = measure_machine(setup, device(), workers_, volume.get(), ranks_.comm);
    if (!drives_) drives_ = rates.nvme;
    rates.nvme = *drives_;
    if (stores()) cache.store_rates(setup, directories_, rates);
    return rates;
  }

  std::optional<ComputeCost> compute(const RunSetup& setup, const MachineRates& rates,
                                     const MakeDevice& device, MachineCache& cache) {
    auto known = knows() ? cache.find_compute(setup, rates) : std::nullopt;
    if (known || !measures()) return known;
    measured_some_ = true;
    Device& its_device = device();
    if (!setup.device.gpu) {
      ops::set_matmul_choices(static_cast<CpuDevice&>(its_device), rates.matmuls,
                              rates.default_arithmetic);
    }
    const ComputeCost cost = measure_compute(setup, its_device);
    if (stores()) cache.store_compute(setup, rates, cost);
    return cost;
  }

  bool knows() const { return measuring_ < Measuring::everything; }
  bool measures() const { return measuring_ != Measuring::nothing; }
  bool stores() const {
    return measuring_ != Measuring::again && ranks_.comm.topology().local_rank == 0;
  }

  const Measuring measuring_;
  Ranks& ranks_;
  WorkerSet workers_;
  std::vector<std::string> directories_;
  std::optional<DriveRates> drives_;  // once they are measured
  bool measured_some_ = false;
  std::string note_;
};

[[noreturn]] void refuse_unknown() {
  throw AgreedFailure(
      "auto: this machine was not measured for this model yet; strata tune with these options "
      "measures it, or give --device-memory and --host-memory sizes",
      kExitUsage);
}

// Fills in updates in every format of the space that fits here. Collective.
void measure_formats(const SearchSpace& space, const SearchPlace& place,
                     MachineMeasurement& measurement, comm::Communicator& comm,
                     MachineModel& model) {
  const SearchSpace keeps_nothing = without_outputs(space);
  for (const std::string& moments : space.moments) {
    for (const std::string& grad_dtype : space.grad_dtypes) {
      agree(comm, [&] {
        if (model.optimizer_bytes_per_s.contains({moments, grad_dtype})) return;
        const auto setup = feasible_formats(keeps_nothing, place, moments, grad_dtype);
        if (!setup) return;
        const std::optional<double> rate = measurement.optimizer(with_all_room(*setup));
        if (rate) model.optimizer_bytes_per_s[{moments, grad_dtype}] = *rate;
      });
    }
  }
}

}  // namespace

MachineModel measure_for_search(SearchSpace& space, const SearchPlace& place, Measuring measuring,
                                Ranks& ranks) {
  const std::vector<RunSetup> setups = common_setups(space, place, ranks.comm);
  MachineMeasurement measurement(measuring, ranks, setups.front());
  MachineModel model;
  {
    StatusLine status(ranks.comm);
    for (const RunSetup& setup : setups) {
      status.show(fmt::format("measuring this machine with --micro-batch {}, {} of {}",
                              setup.options.micro_batch, model.of_micro_batch.size() + 1,
                              setups.size()));
      std::optional<MicroBatchModel> measured = measurement.measure(setup);
      if (!measured) refuse_unknown();
      model.optimizer_bytes_per_s[formats_of(setup.options)] =
          measured->rates.optimizer_bytes_per_s;
      model.of_micro_batch.emplace(setup.options.micro_batch, std::move(*measured));
    }
    measure_formats(space, place, measurement, ranks.comm, model);
  }
  measurement.report_cache();
  model.origin = measurement.origin();
  return model;
}

std::optional<MachineModel> measured_before(const RunSetup& setup, Ranks& ranks) {
  RunSetup as_measured = setup;
  as_measured.options = without_outputs(setup.options);
  as_measured.shape.recompute = true;
  MachineMeasurement measurement(Measuring::nothing, ranks, as_measured);
  std::optional<MicroBatchModel> measured = measurement.measure(as_measured);
  measurement.report_cache();
  const bool has_nvme = setup.plan.total_bytes(offload::Tier::nvme) > 0;
  if (!measured || (has_nvme && !measured->rates.nvme.in_use())) return std::nullopt;
  MachineModel model;
  model.of_micro_batch.emplace(setup.options.micro_batch, std::move(*measured));
  model.origin = measurement.origin();
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
  for (const OptionSpec& option : option_list()) {
    const bool is_output =
        option.group == OptionGroup::run || option.group == OptionGroup::watching;
    if (is_output) option.set(trial, option.get(defaults));
  }
  trial.val_data.clear();
  trial.val_fraction = 0;
  return trial;
}

}  // namespace strata::engine
