#include "engine/profile/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/options/json_text.h"
#include "engine/profile/report_parts.h"
#include "engine/profile/report_tables.h"
#include "kernels/base/bytes.h"
#include "offload/traffic.h"

namespace strata::engine {
namespace {

using nlohmann::json;

constexpr std::size_t kPointsMax = 2000;

// {"step":[…],"loss":[…],…} of lines; null where a line has none.
json columns_of(const std::vector<const json*>& lines, const std::vector<std::string>& names) {
  json columns;
  for (const std::string& name : names) {
    json& column = columns[name] = json::array();
    for (const json* line : lines) column.push_back(line->value(name, json()));
  }
  return columns;
}

std::vector<std::string> link_keys() {
  std::vector<std::string> keys;
  for (int l = 0; l < offload::kLinks; ++l) {
    keys.emplace_back(key_of(static_cast<offload::Link>(l)));
  }
  return keys;
}

json log_columns(const ReportData& data) {
  std::vector<std::string> names = {"step",   "loss",    "val_loss",    "lr",
                                    "step_s", "bound_s", "tokens_per_s"};
  for (std::string& key : link_keys()) names.push_back(std::move(key));
  return columns_of(thinned(data.log, kPointsMax, "val_loss"), names);
}

json memory_columns(const ReportData& data) {
  json columns;
  const auto lines = thinned(data.profile, kPointsMax, nullptr);
  for (const char* const name : {"step", "device", "host", "nvme", "resident"}) {
    json& column = columns[name] = json::array();
    for (const json* line : lines) {
      column.push_back(std::string_view(name) == "step"
                           ? line->at("step")
                           : line->value("held_bytes", json::object()).value(name, json()));
    }
  }
  return columns;
}

json budgets_of(const json& plan) {
  json budgets = json::object();
  for (const char* const tier : {"device", "host"}) {
    const json bytes = json_at(plan, {"tiers", tier, "budget_bytes"});
    if (bytes.is_number()) budgets[tier] = bytes;
  }
  return budgets;
}

// Within a script element, where nothing is escaped: "<" only as \u003c, or "</script>" ends it.
std::string script_data(const ReportData& data) {
  const std::string text = json_text({{"log", log_columns(data)},
                                      {"profile", memory_columns(data)},
                                      {"links", link_keys()},
                                      {"budgets", budgets_of(data.plan)},
                                      {"timeline", data.timeline}},
                                     -1);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string chart(const char* name, const char* title, const char* unit) {
  return fmt::format(
      "<section><h2>{} <small>{}</small></h2><div id=\"chart-{}\"></div></section>\n", title, unit,
      name);
}

std::string timelines(const ReportData& data) {
  if (data.timeline.is_null()) return "";
  std::string text;
  for (const char* const which : {"median", "slowest"}) {
    const json& step = data.timeline[which];
    const auto left_out = json_at(step, {"left_out_spans"});
    text += fmt::format(
        "<section class=\"wide\"><h2>Timeline of the {} step <small>step {}, {}; scroll to zoom, "
        "drag to move, double click for all of it{}</small></h2>"
        "<canvas id=\"timeline-{}\"></canvas></section>\n",
        which, html_of(json_at(step, {"profile", "step"})),
        seconds_text(json_at(step, {"profile", "wall_s"})),
        left_out.is_number() && left_out > 0
            ? fmt::format("; {} short spans are left out", html_of(left_out))
            : "",
        which);
  }
  return text;
}

std::string missing_list(const ReportData& data) {
  if (data.missing.empty()) return "";
  std::string text = "<section class=\"missing\"><h2>Not on this page</h2><ul>";
  for (const std::string& sentence : data.missing) {
    text += fmt::format("<li>{}</li>", html(sentence));
  }
  return text + "</ul></section>\n";
}

}  // namespace

std::string report_page(const ReportData& data) {
  const std::string name =
      html(std::filesystem::path(data.folder).lexically_normal().filename().string());
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<title>{} · strata report</title>\n<style>{}</style></head>\n<body>\n",
      name, kReportStyle);
  page += fmt::format("<header><h1>{}</h1><p>{}</p></header>\n", name, subtitle(data));
  page += tiles(data);
  page += missing_list(data);
  page += "<div class=\"grid2\">\n";
  page += chart("loss", "Loss", "nats per target");
  page += chart("lr", "Learning rate", "");
  page += chart("time", "Time of a step", "against the bound");
  page += chart("rate", "Throughput", "tokens per second, all ranks");
  page += chart("links", "Bytes per link", "a step and its update, rank 0");
  page += chart("memory", "Memory by tier", "rank 0, against the budget");
  page += "</div>\n";
  page += timelines(data);
  page += where_time_went(data);
  page += run_facts(data);
  page += fmt::format(
      "<div id=\"tip\"></div>\n<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      script_data(data), kReportScript);
  return page;
}

}  // namespace strata::engine
