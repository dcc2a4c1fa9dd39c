#include "engine/profile/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "engine/options/count_text.h"
#include "engine/options/duration_text.h"
#include "engine/options/json_text.h"
#include "engine/profile/span_meaning.h"
#include "kernels/base/bytes.h"

namespace strata::engine {
namespace {

using nlohmann::json;

constexpr const char* kNone = "–";

std::string number_text(const json& value, const char* format) {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>()) : kNone;
}

std::string bytes_text(const json& value) {
  return value.is_number() ? format_bytes(value.get<std::int64_t>()) : kNone;
}

// The newest value of a field in the log that is not null.
json newest(const ReportData& data, const char* field) {
  for (auto line = data.log.rbegin(); line != data.log.rend(); ++line) {
    if (const json value = line->value(field, json()); !value.is_null()) return value;
  }
  return {};
}

// Of the steps of the log but the first, which warms up.
json median(const ReportData& data, const char* field) {
  std::vector<double> values;
  for (const json& line : data.log) {
    if (const json value = line.value(field, json()); value.is_number()) values.push_back(value);
  }
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string tile(const std::string& value, const std::string& label) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>", value, label);
}

double number_or_zero(const json& value) { return value.is_number() ? value.get<double>() : 0; }

bool has_work(const json& row, double wall_s) {
  return number_or_zero(json_at(row, {"idle", name_of(Idle::nothing)})) < 0.9995 * wall_s;
}

std::string share(double seconds, double wall_s) {
  return seconds < 0.0005 * wall_s ? "" : fmt::format("{:.1f}", 100 * seconds / wall_s);
}

double sum(const json& times) {
  double sum = 0;
  for (const json& seconds : times) sum += number_or_zero(seconds);
  return sum;
}

// The kinds of work of a row, most first: "linear 61.2, attention 8.0".
std::string kinds_text(const json& work, double wall_s) {
  std::vector<std::pair<double, std::string>> kinds;
  for (const auto& [kind, seconds] : work.items()) {
    kinds.emplace_back(number_or_zero(seconds), kind);
  }
  std::sort(kinds.rbegin(), kinds.rend());
  std::string text;
  for (std::size_t k = 0; k < std::min<std::size_t>(kinds.size(), 8); ++k) {
    const std::string part = share(kinds[k].first, wall_s);
    if (part.empty()) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", html(kinds[k].second), part);
  }
  return text;
}

std::string shares_table(const json& profile) {
  const double wall_s = number_or_zero(json_at(profile, {"wall_s"}));
  const json rows = json_at(profile, {"rows"});
  std::string text = "<table class=\"shares\"><tr><th>% of the step</th><th>at work</th>";
  std::vector<const char*> reasons;
  for (int i = 0; i < kIdles; ++i) {
    const char* const reason = name_of(static_cast<Idle>(i));
    const bool is_seen = std::any_of(rows.begin(), rows.end(), [&](const json& row) {
      return has_work(row, wall_s) &&
             !share(number_or_zero(json_at(row, {"idle", reason})), wall_s).empty();
    });
    if (is_seen) reasons.push_back(reason);
  }
  for (const char* const reason : reasons) text += fmt::format("<th>{}</th>", reason);
  text += "</tr>\n";
  std::string kinds;
  for (const json& row : rows) {
    if (!has_work(row, wall_s)) continue;
    const json work = json_at(row, {"work"});
    text += fmt::format("<tr><td>{}</td><td class=\"work\">{}</td>", html_of(json_at(row, {"row"})),
                        share(sum(work), wall_s));
    for (const char* const reason : reasons) {
      text +=
          fmt::format("<td>{}</td>", share(number_or_zero(json_at(row, {"idle", reason})), wall_s));
    }
    text += "</tr>\n";
    const std::string its_kinds = kinds_text(work, wall_s);
    if (work.size() > 1 && !its_kinds.empty()) {
      kinds += fmt::format("<br/>{}: {}", html_of(json_at(row, {"row"})), its_kinds);
    }
  }
  return text + fmt::format("</table><p class=\"note\">Work by kind, % of the step{}</p>", kinds);
}

void add_fact(std::string& rows, std::string_view name, const json& value) {
  if (value.is_null() || value == "") return;
  rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", html(name), html_of(value));
}

// "host_memory_bytes": 4096 as "host memory": 4 KiB.
void add_named_fact(std::string& rows, std::string name, const json& value) {
  if (value.is_null()) return;
  constexpr std::string_view kBytes = "_bytes";
  const bool is_bytes = name.ends_with(kBytes);
  if (is_bytes) name.resize(name.size() - kBytes.size());
  std::ranges::replace(name, '_', ' ');
  if (is_bytes) {
    add_fact(rows, name, bytes_text(value));
  } else if (value.is_number_integer()) {
    add_fact(rows, name, with_separators(value.get<std::int64_t>()));
  } else {
    add_fact(rows, name, value);
  }
}

std::string facts_table(const std::string& rows) {
  return "<table class=\"facts\">" + rows + "</table>";
}

}  // namespace

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string html_of(const json& value) {
  return html(value.is_string() ? value.get_ref<const std::string&>() : json_text(value, -1));
}

json json_at(const json& json, std::initializer_list<const char*> path) {
  const nlohmann::json* at = &json;
  for (const char* const key : path) {
    if (!at->is_object()) return {};
    const auto found = at->find(key);
    if (found == at->end()) return {};
    at = &*found;
  }
  return *at;
}

std::string seconds_text(const json& seconds) {
  return seconds.is_number() ? duration_text(seconds.get<double>()) : kNone;
}

std::string subtitle(const ReportData& data) {
  std::string text = html_of(data.options.value("model", json("a model")));
  const json parameters = json_at(data.plan, {"parameters"});
  if (parameters.is_number_integer()) {
    text += fmt::format(", {} parameters", with_separators(parameters.get<std::int64_t>()));
  }
  if (const json source = data.options.value("data", json()); source.is_string()) {
    text += " on " + html_of(source);
  }
  return text;
}

std::string tiles(const ReportData& data) {
  const json step_s = median(data, "step_s");
  const json bound_s = median(data, "bound_s");
  std::string text = "<div class=\"tiles\">\n";
  const json steps = data.options.value("steps", json());
  text += tile(html_of(newest(data, "step")), steps.is_null() || steps == 0 || steps == "0"
                                                  ? "steps"
                                                  : fmt::format("steps of {}", html_of(steps)));
  text += tile(number_text(newest(data, "loss"), "{:.4f}"), "newest loss");
  text += tile(number_text(newest(data, "val_loss"), "{:.4f}"), "newest validation loss");
  std::string step_label = "a step (median)";
  if (step_s.is_number() && bound_s.is_number()) {
    step_label += fmt::format(", {:.2f} x bound", step_s.get<double>() / bound_s.get<double>());
  }
  text += tile(seconds_text(step_s), step_label);
  text += tile(seconds_text(bound_s), "bound of a step (median)");
  text += tile(number_text(median(data, "tokens_per_s"), "{:.0f}"), "tokens per second (median)");
  text += tile(bytes_text(newest(data, "nvme_read_bytes")), "read from NVMe in the newest step");
  text += tile(bytes_text(newest(data, "nvme_written_bytes")), "written to NVMe in it");
  return text + "\n</div>\n";
}

std::string where_time_went(const ReportData& data) {
  if (data.timeline.is_null()) return "";
  std::string text;
  const json limit = json_at(data.timeline, {"limit"});
  for (const char* const which : {"median", "slowest"}) {
    const json profile = json_at(data.timeline, {which, "profile"});
    text += fmt::format(
        "<section class=\"wide\"><h2>Where the time of the {} step went <small>step {}, {}: at "
        "work, or idle and waiting for what</small></h2>{}",
        which, html_of(json_at(profile, {"step"})), seconds_text(json_at(profile, {"wall_s"})),
        shares_table(profile));
    if (const json dropped = json_at(profile, {"dropped_spans"}); number_or_zero(dropped) > 0) {
      text += fmt::format("<p class=\"note\">{} spans did not fit and are missing.</p>",
                          html_of(dropped));
    }
    if (std::string_view(which) == "median" && limit.is_string()) {
      text += fmt::format("<p class=\"note\">The run is {}.</p>", html_of(limit));
    }
    text += "</section>\n";
  }
  return text;
}

std::string run_facts(const ReportData& data) {
  std::string run;
  add_fact(run, "folder", data.folder);
  add_named_fact(run, "ranks", json_at(data.plan, {"world_size"}));
  for (const char* const key : {"parameters", "update", "passes", "activations", "prefetch"}) {
    add_named_fact(run, key, json_at(data.plan, {key}));
  }
  const json resolved = json_at(data.plan, {"resolved"});
  for (const auto& [key, value] : resolved.items()) add_named_fact(run, key, value);
  for (const char* const tier : {"device", "host", "nvme"}) {
    add_named_fact(run, fmt::format("{}_planned_bytes", tier),
                   json_at(data.plan, {"tiers", tier, "total_bytes"}));
  }
  add_fact(run, "matrix products", json_at(data.arithmetic, {"matmul_library"}));
  add_fact(run, "their arithmetic", json_at(data.arithmetic, {"default"}));
  std::string options;
  for (const auto& [key, value] : data.options.items()) add_fact(options, key, value);
  return fmt::format(
      "<div class=\"grid2\">\n<section><h2>The run</h2>{}</section>\n"
      "<section><h2>Its options</h2>{}</section>\n</div>\n",
      facts_table(run), facts_table(options));
}

}  // namespace strata::engine
