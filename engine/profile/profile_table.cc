#include "engine/profile/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/options/duration_text.h"
#include "engine/options/wrapped_text.h"
#include "engine/profile/profile_json.h"

namespace strata::engine {
namespace {

// From this share of a step on, something is what the step waits for.
constexpr double kLimitingShare = 0.85;
constexpr double kShownShare = 0.0005;
constexpr std::size_t kColumns = 100;  // of a terminal

double share(std::int64_t ns, const StepProfile& profile) {
  return profile.wall_ns > 0 ? static_cast<double>(ns) / static_cast<double>(profile.wall_ns) : 0;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

bool is_shown(const RowTimes& times, const StepProfile& profile) {
  return times.idle(Idle::nothing) < profile.wall_ns;
}

// The cores, drives and, where there is one, a GPU with its two directions of PCIe.
bool is_resource(const RowTimes& times, const StepProfile& profile) {
  const std::string& row = times.row;
  if (row == "cores" || row.starts_with("drive")) return true;
  return profile.device == DeviceKind::cuda && (row == "compute" || row == "h2d" || row == "d2h");
}

std::string_view resource_name(const RowTimes& times) {
  return times.row == "compute" ? "GPU" : std::string_view(times.row);
}

std::string work_text(const RowTimes& times, const StepProfile& profile, std::size_t kinds_max) {
  std::string text;
  for (std::size_t k = 0; k < std::min(times.work.size(), kinds_max); ++k) {
    const double part = share(times.work[k].ns, profile);
    if (part < kShownShare) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", times.work[k].kind, percent(part));
  }
  return text;
}

// The longest reason to be idle but having nothing to do; nothing's where that is all.
Idle main_reason(const RowTimes& times) {
  const auto end = times.idle_ns.begin() + static_cast<int>(Idle::nothing);
  const auto longest = std::max_element(times.idle_ns.begin(), end);
  return *longest > 0 ? static_cast<Idle>(longest - times.idle_ns.begin()) : Idle::nothing;
}

}  // namespace

std::string limit_text(const StepProfile& profile) {
  const RowTimes* busiest = nullptr;
  for (const RowTimes& times : profile.rows) {
    if (!is_resource(times, profile)) continue;
    if (busiest == nullptr || times.work_ns() > busiest->work_ns()) busiest = &times;
  }
  if (busiest == nullptr || busiest->work_ns() == 0) return "nothing was recorded of this step";
  const double busy = share(busiest->work_ns(), profile);
  if (busy >= kLimitingShare) {
    return fmt::format("limited by the {}: at work {}% of the step ({})", resource_name(*busiest),
                       percent(busy), work_text(*busiest, profile, 3));
  }
  std::string text = "limited by no resource alone:";
  for (const RowTimes& times : profile.rows) {
    if (!is_resource(times, profile) || !is_shown(times, profile)) continue;
    const Idle reason = main_reason(times);
    text += fmt::format("{} the {} at work {}%", text.back() == ':' ? "" : ";",
                        resource_name(times), percent(share(times.work_ns(), profile)));
    if (reason != Idle::nothing) {
      text += fmt::format(", waiting for {} {}%", name_of(reason),
                          percent(share(times.idle(reason), profile)));
    }
  }
  return text;
}

std::string profile_table(const StepProfile& profile) {
  std::vector<Idle> reasons;
  for (int i = 0; i < kIdles; ++i) {
    const auto reason = static_cast<Idle>(i);
    const auto has_it = [&](const RowTimes& times) {
      return is_shown(times, profile) && share(times.idle(reason), profile) >= kShownShare;
    };
    if (std::any_of(profile.rows.begin(), profile.rows.end(), has_it)) reasons.push_back(reason);
  }
  std::string text =
      fmt::format("  {:<11}{:>8}  idle, waiting for\n{:21}", "% of step", "at work", "");
  for (const Idle reason : reasons) text += fmt::format("{:>9}", name_of(reason));
  text += '\n';
  for (const RowTimes& times : profile.rows) {
    if (!is_shown(times, profile)) continue;
    text += fmt::format("  {:<11}{:>8}", times.row, percent(share(times.work_ns(), profile)));
    for (const Idle reason : reasons) {
      const double idle = share(times.idle(reason), profile);
      text += fmt::format("{:>9}", idle < kShownShare ? "" : percent(idle));
    }
    text += '\n';
  }
  for (const RowTimes& times : profile.rows) {
    if (times.row != "compute" && !is_resource(times, profile)) continue;
    const std::string work = work_text(times, profile, 12);
    if (work.empty()) continue;
    const std::string label = fmt::format("  work of {}: ", times.row);
    text += label;
    append_wrapped(text, work, label.size(), kColumns);
  }
  if (profile.dropped_spans > 0) {
    text +=
        fmt::format("  {} spans of this step did not fit and are missing\n", profile.dropped_spans);
  }
  return text;
}

std::string profile_text(const KeptSteps& steps) {
  if (steps.added() == 0) return "\nprofile: no step was trained";
  const auto part = [](const char* which, const StepProfile& profile) {
    return fmt::format("{} step ({}): {}\n{}", which, profile.step,
                       duration_text(static_cast<double>(profile.wall_ns) * 1e-9),
                       profile_table(profile));
  };
  std::string text = "\nprofile\n" + part("median", steps.median().profile);
  if (steps.slowest().profile.step != steps.median().profile.step) {
    text += part("slowest", steps.slowest().profile);
  }
  append_wrapped(text, limit_text(steps.median().profile), 0, kColumns);
  text.pop_back();
  return text;
}

std::string profile_summary_json(const KeptSteps& steps) {
  if (steps.added() == 0) return R"({"profile":null})";
  return fmt::format(R"({{"profile":{{"limit":"{}","median":{},"slowest":{}}}}})",
                     limit_text(steps.median().profile), profile_json(steps.median().profile),
                     profile_json(steps.slowest().profile));
}

}  // namespace strata::engine
