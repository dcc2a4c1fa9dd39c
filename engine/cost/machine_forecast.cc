#include "engine/cost/machine_forecast.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/cost/cost_report.h"
#include "engine/options/count_text.h"
#include "engine/options/duration_text.h"

namespace strata::engine {

namespace {

constexpr double kDayS = 86'400;

}  // namespace

std::string forecast_text(const MachineForecast& forecast, std::int64_t steps) {
  const double step_s = forecast.prediction.step_s;
  std::string text = fmt::format(
      "{}\nA step would take {}, {:.2f} x bound: {} tokens per second.\n",
      bound_table(forecast.cost), duration_text(step_s), step_s / forecast.cost.bound_s(),
      with_separators(std::llround(forecast.tokens_per_s())));
  if (steps > 0) {
    text += fmt::format("{} of {} tokens would take {}.\n", count_text(steps, "step"),
                        with_separators(forecast.tokens_per_step),
                        duration_text(static_cast<double>(steps) * step_s));
  }
  return text;
}

nlohmann::json forecast_json(const MachineForecast& forecast, std::int64_t steps) {
  nlohmann::json json = {{"bound", bound_json(forecast.cost)},
                         {"step_s", forecast.prediction.step_s},
                         {"tokens_per_s", forecast.tokens_per_s()}};
  if (steps > 0) json["run_days"] = static_cast<double>(steps) * forecast.prediction.step_s / kDayS;
  return json;
}

}  // namespace strata::engine
