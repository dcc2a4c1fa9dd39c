#include "engine/run/tune_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/data/training_data.h"
#include "engine/options/json_text.h"
#include "engine/options/option_check.h"
#include "engine/run/drive_lives.h"
#include "engine/run/run_length.h"
#include "engine/run/search_target.h"
#include "engine/run/trial_runs.h"
#include "engine/tune/tune_report.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// Of the run; 0: the options do not say.
std::int64_t steps_of_run(const RunSetup& setup) {
  const Options& options = setup.options;
  TrainingData data;
  if (!options.data.empty()) {
    data = open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
  }
  return step_count(setup, data);
}

// Trains with the plans, measures the machine again, and makes each prediction the mean of what the
// machine's rates before and after give.
std::vector<MeasuredSteps> measure(const SearchTarget& target, SearchSpace& space,
                                   std::vector<RankedPlan>& plans, MachineModel& model,
                                   Ranks& ranks) {
  std::vector<MeasuredSteps> measured = measure_plans(plans);
  const MachineModel again = model_of_target(target, space, Measuring::everything, ranks);
  const StepModel after = again.step_model();
  double drift = 0;
  for (RankedPlan& plan : plans) {
    const double after_s = after.predict(plan.setup).step_s;
    drift = std::max(drift, std::abs(after_s / plan.prediction.step_s - 1));
    plan.prediction.step_s = (plan.prediction.step_s + after_s) / 2;
  }
  model.origin = fmt::format(
      "rates measured before and after training, whose predictions differ by {:.1f}% at most",
      100 * drift);
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
  if (options.measure && comm.world_size() > 1) {
    throw ConfigError("--measure trains on one rank: start strata tune without a launcher");
  }
  const SearchTarget target = agree(comm, [&] { return make_search_target(options, ranks); });
  SearchSpace space = make_search_space(target.options, target.place, Variation::as_options_say);
  const bool anew = options.refresh || options.measure;
  MachineModel model = model_of_target(
      target, space, anew ? Measuring::everything : Measuring::what_is_not_known, ranks);
  if (comm.rank() != 0) return 0;
  std::vector<RankedPlan> plans =
      search_plans(space, target.place, model.step_model(), options.plans);
  std::vector<MeasuredSteps> measured;
  if (options.measure) measured = measure(target, space, plans, model, ranks);
  const std::vector<DriveLife> drives =
      target.machine ? drives_of(*target.machine) : drives_of(target.options);
  const std::vector<std::string> notes =
      target.machine ? name_drives(*target.machine, plans) : std::vector<std::string>();
  const TuneReport report{target.options,
                          plans,
                          measured,
                          steps_of_run(plans.front().setup),
                          drives,
                          model.origin,
                          model.of_micro_batch.begin()->second.rates.nvme,
                          notes};
  if (options.json) {
    fmt::print("{}\n", json_text(tune_json(report)));
  } else {
    fmt::print("{}", tune_text(report));
  }
  return 0;
}

}  // namespace strata::engine
