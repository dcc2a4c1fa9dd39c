// The parts of a report's page that are HTML: what a run is and where its time went, in numbers.
// All text of a run is escaped.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/profile/report_data.h"

namespace strata::engine {

// Text as HTML; of JSON, strings without quotes and anything else as it is written.
std::string html(std::string_view text);
std::string html_of(const nlohmann::json& value);

// The value at the end of a path of keys; null where there is none.
nlohmann::json json_at(const nlohmann::json& json, std::initializer_list<const char*> path);

std::string seconds_text(const nlohmann::json& seconds);  // "1.52 s"; "–" of what is no number

std::string subtitle(const ReportData& data);         // one line: model, data, machine
std::string tiles(const ReportData& data);            // the run's main numbers
std::string where_time_went(const ReportData& data);  // of the median and the slowest step
std::string run_facts(const ReportData& data);        // plan, arithmetic, every option

}  // namespace strata::engine
