#include "engine/cost/cost_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/options/duration_text.h"

namespace strata::engine {

namespace {

std::string row(const std::string& name, double forward_s, double backward_s) {
  if (forward_s == 0 && backward_s == 0) return "";
  const auto cell = [](double seconds) { return seconds == 0 ? "-" : duration_text(seconds); };
  return fmt::format("{:<24}{:>12}{:>12}\n", name, cell(forward_s), cell(backward_s));
}

// "from device": "from_device_s"; "I/O": "io_s".
std::string key_of(std::string name) {
  std::erase(name, '/');
  std::ranges::transform(name, name.begin(), [](char c) {
    return c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return name + "_s";
}

nlohmann::json phase_json(const PhaseCost& phase) {
  nlohmann::json json = {{"bound_s", phase.bound_s()}};
  for (int r = 0; r < kResources; ++r) {
    const auto resource = static_cast<Resource>(r);
    json[key_of(name_of(resource))] = phase[resource];
  }
  for (int w = 0; w < kCoreWorks; ++w) {
    const auto work = static_cast<CoreWork>(w);
    json["cores"][key_of(name_of(work))] = phase[work];
  }
  return json;
}

}  // namespace

std::string bound_table(const StepCost& cost) {
  const auto& [forward, backward] = cost.phases;
  std::string text =
      fmt::format("{:<24}{:>12}{:>12}\n", "time of a step, at least", "forward", "backward");
  for (int r = 0; r < kResources; ++r) {
    const auto resource = static_cast<Resource>(r);
    text += row(fmt::format("  {}", name_of(resource)), forward[resource], backward[resource]);
    if (resource != Resource::cores) continue;
    for (int w = 0; w < kCoreWorks; ++w) {
      const auto work = static_cast<CoreWork>(w);
      text += row(fmt::format("    {}", name_of(work)), forward[work], backward[work]);
    }
  }
  text += row("longest", forward.bound_s(), backward.bound_s());
  text += fmt::format("bound {} a step, limited by {}", duration_text(cost.bound_s()),
                      name_of(cost.limit()));
  if (cost.moved_s > 0) {
    text +=
        fmt::format("; {} less, for what can move to the other phase", duration_text(cost.moved_s));
  }
  return text + '\n';
}

nlohmann::json bound_json(const StepCost& cost) {
  return {{"seconds", cost.bound_s()},
          {"limit", name_of(cost.limit())},
          {"moved_s", cost.moved_s},
          {"forward", phase_json(cost.phases[0])},
          {"backward", phase_json(cost.phases[1])}};
}

}  // namespace strata::engine
