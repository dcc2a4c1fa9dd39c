// ReportData: what the folder of a run says of it, also while the run goes on: its options, its
// plan, its log and, where it has them, its profiles. What is missing or torn is said, not refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace strata::engine {

struct ReportData {
  std::string folder;
  nlohmann::json options;               // options.json; an object
  nlohmann::json plan;                  // plan.json; empty: there is none
  nlohmann::json arithmetic;            // arithmetic.json; likewise
  nlohmann::json timeline;              // timeline.json; null: there is none
  std::vector<nlohmann::json> log;      // lines of log.jsonl, in the order of the file
  std::vector<nlohmann::json> profile;  // of profile.jsonl
  std::vector<std::string> missing;     // sentences: which files, and what the page lacks for it
};

// Throws ConfigError for what is no folder of a run, and IoError.
ReportData read_report_data(const std::string& folder);

// At most `lines_max` of `lines`, evenly, the first and the last among them, and every one for
// which `keep` is not null in the line.
std::vector<const nlohmann::json*> thinned(const std::vector<nlohmann::json>& lines,
                                           std::size_t lines_max, const char* keep);

}  // namespace strata::engine
