#include "engine/run/run_summary.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/cost/cost_report.h"
#include "engine/options/count_text.h"
#include "engine/options/duration_text.h"
#include "engine/options/json_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

// Without the sign of a NaN, which says nothing.
std::string loss_text(const std::optional<double>& loss) {
  return !loss || std::isnan(*loss) ? "nan" : fmt::format("{:.4f}", *loss);
}

std::string losses_text(const RunSummary& summary) {
  std::string text =
      fmt::format("{} -> {}", loss_text(summary.loss_first), loss_text(summary.loss_last));
  if (summary.val_loss_first && summary.val_loss_last) {
    text += fmt::format(", validation {} -> {}", loss_text(summary.val_loss_first),
                        loss_text(summary.val_loss_last));
  } else if (summary.val_loss_last) {
    text += fmt::format(", validation {}", loss_text(summary.val_loss_last));
  }
  text += " nats per token";
  const std::int64_t nonfinite = summary.skipped - summary.untrained;
  if (nonfinite > 0) text += fmt::format("; {} skipped", count_text(nonfinite, "step"));
  if (summary.untrained > 0) {
    text += fmt::format("; {} without a trained token", count_text(summary.untrained, "step"));
  }
  return text;
}

// Padded steps have bounds of their own: the mean's is theirs.
std::string step_text(const RunSummary& summary, const StepCost& bound) {
  const double mean_s = summary.mean_step_s();
  if (mean_s == 0) {
    return bound.bound_s() > 0 ? fmt::format("bound {}", duration_text(bound.bound_s())) : "-";
  }
  const std::string mean = fmt::format("{} on average", duration_text(mean_s));
  if (summary.bounds_s == 0) return mean;
  const double ratio = summary.bounded_s / summary.bounds_s;
  return fmt::format("{}, {:.2f} x bound ({}, limited by {})", mean, ratio,
                     duration_text(mean_s / ratio), name_of(bound.limit()));
}

}  // namespace

std::string summary_json(const RunSummary& summary, const Budget& device, const Budget& host,
                         const StepCost& bound, nlohmann::json ledger) {
  const bool has_bound = bound.bound_s() > 0;
  const auto number = [](const auto& x) { return x ? nlohmann::json(*x) : nlohmann::json(); };
  return json_text({{"steps", summary.steps},
                    {"first_step", summary.first_step},
                    {"skipped_steps", summary.skipped},
                    {"untrained_steps", summary.untrained},
                    {"loss_first", number(summary.loss_first)},
                    {"loss_last", number(summary.loss_last)},
                    {"val_loss_first", number(summary.val_loss_first)},
                    {"val_loss_last", number(summary.val_loss_last)},
                    {"committed_step", number(summary.committed_step)},
                    {"device_peak_bytes", device.peak_bytes()},
                    {"device_budget_bytes", device.capacity_bytes()},
                    {"host_peak_bytes", host.peak_bytes()},
                    {"host_budget_bytes", host.capacity_bytes()},
                    {"resident_peak_bytes", peak_resident_bytes()},
                    {"nvme_read_bytes", summary.nvme.read_bytes},
                    {"nvme_written_bytes", summary.nvme.written_bytes},
                    {"nvme", std::move(ledger)},
                    {"mean_step_s", summary.mean_step_s()},
                    {"bound_s", has_bound ? nlohmann::json(bound.bound_s()) : nlohmann::json()},
                    {"bound", has_bound ? bound_json(bound) : nlohmann::json()},
                    {"wall_s", summary.wall_s}},
                   -1);
}

std::string summary_text(const RunSummary& summary, const Budget& device, const Budget& host,
                         const StepCost& bound, const std::string& ledger) {
  const char* const whose = summary.of_rank_0 ? " (rank 0)" : "";
  const std::string committed =
      summary.committed_step ? fmt::format("  checkpoint       step {}\n", *summary.committed_step)
                             : "";
  return fmt::format(
      "\nsummary\n"
      "  loss             {}\n"
      "{}"
      "  device memory    {} peak of {} budget{}\n"
      "  host memory      {} peak of {} budget{}; process {} resident at most\n"
      "  NVMe             {} held; {} read and {} written, start and evaluation included{}\n"
      "{}"
      "  step             {}\n"
      "  time             {} from the start for {}, evaluation and samples",
      losses_text(summary), committed, format_bytes(device.peak_bytes()),
      format_bytes(device.capacity_bytes()), whose, format_bytes(host.peak_bytes()),
      format_bytes(host.capacity_bytes()), whose, format_bytes(peak_resident_bytes()),
      format_bytes(summary.nvme_held_bytes), format_bytes(summary.nvme.read_bytes),
      format_bytes(summary.nvme.written_bytes), whose, ledger, step_text(summary, bound),
      duration_text(summary.wall_s), count_text(summary.trained(), "step"));
}

}  // namespace strata::engine
