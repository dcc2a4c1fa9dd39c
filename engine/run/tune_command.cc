#include "engine/run/tune_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/data/training_data.h"
#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/plan/device_choice.h"
#include "engine/plan/model_source.h"
#include "engine/run/drive_lives.h"
#include "engine/run/error_report.h"
#include "engine/run/rank_devices.h"
#include "engine/run/run_length.h"
#include "engine/run/search_target.h"
#include "engine/run/status_line.h"
#include "engine/run/trial_runs.h"
#include "engine/tune/measured_steps.h"
#include "engine/tune/repeated_forecast.h"
#include "engine/tune/tune_report.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// Without a plan, so that it is refused before anything takes long.
TrainingData open_data(const Options& options) {
  if (options.data.empty()) return {};
  const std::string kept = options.resume ? kept_model_folder(options.run) : "";
  const models::ModelConfig model = resolve_model(options.model, kept).config;
  return open_training_data(options, model.vocabulary, options.seq_len.value_or(model.context));
}

// False where nobody tried.
bool none_trained(const std::vector<MeasuredSteps>& measured) {
  return !measured.empty() && std::all_of(measured.begin(), measured.end(),
                                          [](const auto& plan) { return plan.step_s.empty(); });
}

// What the plans need to know of the machine, and no more.
SearchSpace space_of(const std::vector<RankedPlan>& plans, SearchSpace space) {
  std::set<std::int64_t> micro_batches;
  std::set<std::string> moments;
  std::set<std::string> grad_dtypes;
  for (const RankedPlan& plan : plans) {
    micro_batches.insert(plan.setup.options.micro_batch);
    moments.insert(plan.setup.options.moments);
    grad_dtypes.insert(plan.setup.options.grad_dtype);
  }
  space.micro_batches.assign(micro_batches.begin(), micro_batches.end());
  space.moments.assign(moments.begin(), moments.end());
  space.grad_dtypes.assign(grad_dtypes.begin(), grad_dtypes.end());
  return space;
}

// What was measured so far counts where it fails.
void measure_again(const SearchTarget& target, SearchSpace& space, RepeatedForecast& forecast,
                   Ranks& ranks) {
  try {
    forecast.add(model_of_target(target, space, Measuring::again, ranks).step_model());
  } catch (const Error& e) {
    print_notice(fmt::format("--measure: the machine was not measured again: {}", e.what()));
  }
}

// Trains with each plan in turn, in rounds through the list, and measures the machine again after
// each, so that what changes with time falls on all plans and on what is forecast of them:
// the median of what the rates of each time give.
std::vector<MeasuredSteps> measure(const SearchTarget& target, const SearchSpace& space,
                                   std::vector<RankedPlan>& plans, MachineModel& model,
                                   Ranks& ranks) {
  StatusLine status(ranks.comm);
  SearchSpace needed = space_of(plans, space);
  RepeatedForecast forecast(plans);
  std::vector<MeasuredSteps> measured(plans.size());
  std::vector<double> medians;
  double change = 0;  // of these, by the last round
  for (int rounds = 0; !enough_rounds(rounds, measured, change); ++rounds) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (rounds >= kRoundsMin && measured[i].step_s.empty()) continue;  // it only fails
      status.show(
          fmt::format("training with plan {} of {}, round {}", i + 1, plans.size(), rounds + 1));
      bool trained = false;
      without_gpu(target.options, ranks, [&] { trained = run_trial(plans[i], measured[i]); });
      if (trained) measure_again(target, needed, forecast, ranks);
    }
    std::vector<double> now = forecast.medians_s();
    for (const MeasuredSteps& plan : measured) now.push_back(plan.median_s());
    change = largest_change(medians, now);
    medians = std::move(now);
  }
  if (forecast.times() > 1) {
    model.origin = fmt::format(
        "rates measured {} times, before and after each training; of one plan the predictions "
        "differ by {:.1f}% at most, the trainings by {:.1f}%",
        forecast.times(), 100 * forecast.spread(), 100 * widest_spread(measured));
    forecast.take_median();
  }
  return measured;
}

// "DIR1,DIR2"
std::string placeholders(int drives) {
  std::vector<std::string> names;
  for (int d = 1; d <= drives; ++d) names.push_back(fmt::format("DIR{}", d));
  return fmt::format("{}", fmt::join(names, ","));
}

// Of the commands for a described machine: gives them directories where their plan needs some and
// nobody named any, and says what to know of them.
std::vector<std::string> name_drives(const MachineDescription& machine,
                                     std::vector<RankedPlan>& plans) {
  const std::string directories = placeholders(machine.drive.count);
  std::vector<std::string> notes;
  bool named = false;
  for (RankedPlan& plan : plans) {
    const bool has_nvme = plan.setup.plan.total_bytes(offload::Tier::nvme) > 0;
    if (!has_nvme || !plan.options.nvme.empty() || !plan.options.run.empty()) continue;
    plan.options.nvme = directories;
    named = true;
  }
  if (named) notes.push_back(directories + ": a directory on each drive of that machine");
  return notes;
}

}  // namespace

void check_tuned_options(const Options& options) {
  check_options(options);
  check_tune_options(options);
  if (options.refresh && !options.machine.empty()) {
    throw ConfigError("--refresh measures this machine, and --machine describes another");
  }
  if (!options.measure) return;
  if (!options.machine.empty()) {
    throw ConfigError("--measure trains on this machine, and --machine describes another");
  }
  if (options.data.empty()) throw ConfigError("--measure trains: --data is missing");
}

int run_tune(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const SearchTarget target = agree(comm, [&] {
    if (options.measure && comm.world_size() > 1) {
      throw ConfigError("--measure trains on one rank: start strata tune without a launcher");
    }
    return make_search_target(options, ranks);
  });
  const TrainingData data = agree(comm, [&] { return open_data(target.options); });
  SearchSpace space = agree(comm, [&] {
    return make_search_space(target.options, target.place, Variation::as_options_say);
  });
  const bool anew = options.refresh || options.measure;
  MachineModel model = model_of_target(
      target, space, anew ? Measuring::everything : Measuring::what_is_not_known, ranks);
  std::vector<RankedPlan> plans;
  agree(comm, [&] {  // the others wait, so that they end as rank 0 does
    if (comm.rank() != 0) return;
    plans = find_plans(target, space, model, options.plans, comm);
  });
  if (comm.rank() != 0) return 0;
  std::vector<MeasuredSteps> measured;
  if (options.measure) measured = measure(target, space, plans, model, ranks);
  const std::vector<DriveLife> drives =
      target.machine ? drives_of(*target.machine) : drives_of(target.options);
  const std::vector<std::string> notes =
      target.machine ? name_drives(*target.machine, plans)
                     : std::vector{"device: " + device_choice(plans.front().setup)};
  const TuneReport report{target.options,
                          plans,
                          measured,
                          step_count(plans.front().setup, data),
                          drives,
                          model.origin,
                          model.of_micro_batch.begin()->second.rates.nvme,
                          notes};
  if (options.json) {
    fmt::print("{}\n", json_text(tune_json(report)));
  } else {
    fmt::print("{}", tune_text(report));
  }
  if (!none_trained(measured)) return 0;
  std::fflush(stdout);  // the error comes last
  throw_error<TrainingError>("--measure: no plan trained; the first one: {}",
                             measured.front().failures.front());
}

}  // namespace strata::engine
