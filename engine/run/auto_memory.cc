#include "engine/run/auto_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/options/duration_text.h"
#include "engine/options/json_text.h"
#include "engine/options/option_list.h"
#include "engine/run/error_report.h"
#include "engine/run/search_target.h"
#include "engine/step/shared_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

// None of them changes a bit of what is computed.
constexpr std::array kChosen = {"device-memory", "host-memory", "place",     "activations",
                                "recompute",     "prefetch",    "chunk-size"};

bool is_chosen(const OptionSpec& option) {
  return std::find(kChosen.begin(), kChosen.end(), option.name) != kChosen.end();
}

std::string chosen_json(const Options& options) {
  nlohmann::json values;
  for (const OptionSpec& option : option_list()) {
    if (is_chosen(option)) values[option.name] = option.get(options);
  }
  return json_text(values);
}

// Of this machine.
std::string left_text(const Options& asked, const RankedPlan& plan) {
  if (!asked.machine.empty()) return "";
  const offload::Plan& held = plan.setup.plan;
  const std::int64_t taken =
      held.host_memory_bytes + (plan.setup.device.gpu ? 0 : held.device_memory_bytes);
  const std::int64_t left = available_memory_bytes() - taken * plan.setup.topology.local_world_size;
  return fmt::format(", which leaves {} free", format_bytes(std::max<std::int64_t>(0, left)));
}

std::string choice_text(const Options& asked, const RankedPlan& plan) {
  const offload::Plan& held = plan.setup.plan;
  const int ranks = plan.setup.topology.local_world_size;
  std::string text = fmt::format(
      "auto: {} of device and {} of host memory{}{}; a step is predicted to take {};",
      format_bytes(held.device_memory_bytes), format_bytes(held.host_memory_bytes),
      ranks > 1 ? fmt::format(" for each of {} ranks (--host-memory is for all of a host)", ranks)
                : "",
      left_text(asked, plan), duration_text(plan.prediction.step_s));
  for (const OptionSpec& option : option_list()) {
    if (!is_chosen(option) || option.get(plan.options) == option.get(asked)) continue;
    text += fmt::format(" --{} {}", option.name, option.get(plan.options));
  }
  return text;
}

}  // namespace

bool asks_for_auto_memory(const Options& options) {
  return (is_given(options, "device-memory") && !options.device_memory) ||
         (is_given(options, "host-memory") && !options.host_memory);
}

Options with_auto_memory(const Options& options, Measuring measuring, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const SearchTarget target = agree(comm, [&] { return make_search_target(options, ranks); });
  SearchSpace space =
      agree(comm, [&] { return make_search_space(target.options, target.place, Variation::none); });
  const MachineModel model = model_of_target(target, space, measuring, ranks);
  const std::string mine = agree(comm, [&]() -> std::string {
    if (comm.rank() != 0) return "";
    const RankedPlan best = std::move(find_plans(target, space, model, 1, comm).front());
    print_notice(choice_text(options, best));
    return chosen_json(best.options);
  });
  const auto values = nlohmann::json::parse(broadcast_text(comm, mine));
  Options chosen = options;
  for (const OptionSpec& option : option_list()) {
    if (is_chosen(option)) option.set(chosen, values.at(option.name).get<std::string>());
  }
  return chosen;
}

}  // namespace strata::engine
