#include "engine/tune/tune_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/options/duration_text.h"
#include "engine/tune/command_text.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using nlohmann::json;
using offload::Tier;

namespace {

constexpr double kDayS = 86400;
constexpr double kTokens = 1e9;  // of a run whose length is not known

// Of one plan, derived.
struct Outlook {
  double tokens_per_s = 0;
  double run_s = 0;
  double written_bytes_per_day = 0;  // by all ranks of a host
  std::optional<double> drive_days;  // until the first drive's life is used up
};

Outlook outlook(const TuneReport& report, const RankedPlan& plan) {
  const double step_s = plan.prediction.step_s;
  const auto step_tokens = static_cast<double>(plan.setup.batch.tokens_per_step());
  Outlook result;
  result.tokens_per_s = step_tokens / step_s;
  result.run_s =
      report.steps > 0 ? static_cast<double>(report.steps) * step_s : kTokens / result.tokens_per_s;
  if (plan.setup.plan.total_bytes(Tier::nvme) == 0) return result;
  const WriteForecast writes = forecast_writes(plan.setup, 0);
  const auto steps = static_cast<std::int64_t>(kDayS / step_s);
  const auto bytes = static_cast<double>(writes.total_bytes(steps, 0) - writes.start_bytes);
  const int ranks = plan.setup.topology.local_world_size;
  result.written_bytes_per_day = bytes * ranks;
  for (const DriveLife& drive : report.drives) {
    if (drive.endurance_bytes == 0 || bytes <= 0) continue;
    const double days = 1 / drive.used(bytes, ranks);
    result.drive_days = std::min(days, result.drive_days.value_or(days));
  }
  return result;
}

std::string bytes_text(double bytes) {
  return bytes > 0 ? format_bytes(static_cast<std::int64_t>(bytes)) : "-";
}

double error_of(const RankedPlan& plan, const MeasuredSteps& measured) {
  return plan.prediction.step_s / measured.median_s() - 1;
}

std::string nvme_text(const DriveRates& nvme) {
  if (!nvme.in_use()) return "";
  return fmt::format("; NVMe {}/s read, {}/s written", bytes_text(nvme.read_bytes_per_s),
                     bytes_text(nvme.written_bytes_per_s));
}

std::string row_text(const TuneReport& report, std::size_t i) {
  const RankedPlan& plan = report.plans[i];
  const offload::Plan& held = plan.setup.plan;
  const Outlook out = outlook(report, plan);
  std::string row = fmt::format(
      "{:>2} {:>10} {:>10} {:>9.0f}  {:<11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>12} {:>10}",
      i + 1, duration_text(plan.prediction.step_s), duration_text(plan.cost.bound_s()),
      out.tokens_per_s, name_of(plan.cost.limit()), format_bytes(held.total_bytes(Tier::device)),
      format_bytes(held.total_bytes(Tier::host)), format_bytes(held.total_bytes(Tier::nvme)),
      bytes_text(static_cast<double>(held.nvme_read_bytes())),
      bytes_text(static_cast<double>(held.nvme_written_bytes())), duration_text(out.run_s),
      bytes_text(out.written_bytes_per_day),
      out.drive_days ? duration_text(*out.drive_days * kDayS) : "-");
  if (report.measured.empty()) return row + "\n";
  const MeasuredSteps& measured = report.measured[i];
  if (measured.step_s.empty()) return row + fmt::format(" {:>10} {:>7}\n", "failed", "");
  return row + fmt::format(" {:>10} {:>+6.1f}%\n", duration_text(measured.median_s()),
                           100 * error_of(plan, measured));
}

std::string plan_text(const TuneReport& report, std::size_t i) {
  const RankedPlan& plan = report.plans[i];
  std::string text = fmt::format("\n{}: {}\n", i + 1, train_command(plan.options));
  const std::vector<std::string> changed = changed_bits(report.base, plan.options);
  if (!changed.empty()) {
    text += fmt::format("   other weights than with the options as given: --{}\n",
                        fmt::join(changed, ", --"));
  }
  if (report.measured.empty()) return text;
  for (const std::string& failure : report.measured[i].failures) {
    text += fmt::format("   failed: {}\n", failure);
  }
  return text;
}

json busy_json(const StepPrediction& prediction) {
  json object = json::object();
  for (int r = 0; r < kResources; ++r) {
    const double seconds = prediction.busy_s[static_cast<std::size_t>(r)];
    if (seconds > 0) object[name_of(static_cast<Resource>(r))] = seconds;
  }
  return object;
}

json measured_json(const RankedPlan& plan, const MeasuredSteps& measured) {
  json object = {{"step_s", measured.step_s}, {"failures", measured.failures}};
  if (measured.step_s.empty()) return object;
  object["median_s"] = measured.median_s();
  object["error"] = error_of(plan, measured);
  return object;
}

json plan_object(const TuneReport& report, std::size_t i) {
  const RankedPlan& plan = report.plans[i];
  const offload::Plan& held = plan.setup.plan;
  const Outlook out = outlook(report, plan);
  json object = {{"command", train_command(plan.options)},
                 {"arguments", train_words(plan.options)},
                 {"changes_bits", changed_bits(report.base, plan.options)},
                 {"step_s", plan.prediction.step_s},
                 {"bound_s", plan.cost.bound_s()},
                 {"limit", name_of(plan.cost.limit())},
                 {"busy_s", busy_json(plan.prediction)},
                 {"tokens_per_s", out.tokens_per_s},
                 {"run_s", report.steps > 0 ? json(out.run_s) : json()},
                 {"device_bytes", held.total_bytes(Tier::device)},
                 {"host_bytes", held.total_bytes(Tier::host)},
                 {"nvme_bytes", held.total_bytes(Tier::nvme)},
                 {"nvme_read_bytes_per_step", held.nvme_read_bytes()},
                 {"nvme_written_bytes_per_step", held.nvme_written_bytes()},
                 {"nvme_written_bytes_per_day", out.written_bytes_per_day},
                 {"drive_life_days", out.drive_days ? json(*out.drive_days) : json()}};
  if (!report.measured.empty()) object["measured"] = measured_json(plan, report.measured[i]);
  return object;
}

}  // namespace

std::string tune_text(const TuneReport& report) {
  const std::string run = report.steps > 0 ? fmt::format("{} steps", report.steps) : "1e9 tokens";
  std::string text = fmt::format(
      "{}{}\n\n{:>2} {:>10} {:>10} {:>9}  {:<11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} "
      "{:>12} {:>10}",
      report.origin, nvme_text(report.nvme), "", "predicted", "bound", "tokens/s", "limited by",
      "device", "host", "NVMe", "read", "written", run, "written/day", "drive life");
  if (!report.measured.empty()) text += fmt::format(" {:>10} {:>7}", "measured", "error");
  text += '\n';
  for (std::size_t i = 0; i < report.plans.size(); ++i) text += row_text(report, i);
  for (std::size_t i = 0; i < report.plans.size(); ++i) text += plan_text(report, i);
  for (const std::string& note : report.notes) text += "\n" + note + "\n";
  return text;
}

json tune_json(const TuneReport& report) {
  json plans = json::array();
  for (std::size_t i = 0; i < report.plans.size(); ++i) plans.push_back(plan_object(report, i));
  return {{"rates", report.origin},
          {"nvme",
           {{"read_bytes_per_s", report.nvme.read_bytes_per_s},
            {"written_bytes_per_s", report.nvme.written_bytes_per_s}}},
          {"plans", std::move(plans)},
          {"notes", report.notes}};
}

}  // namespace strata::engine
