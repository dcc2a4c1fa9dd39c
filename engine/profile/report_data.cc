#include "engine/profile/report_data.h"

#include <filesystem>
#include <optional>
#include <sstream>

#include "engine/options/run_files.h"
#include "engine/profile/profile_json.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

using nlohmann::json;

constexpr const char* kOptionsFile = "options.json";
constexpr const char* kPlanFile = "plan.json";

class FolderReader {
 public:
  explicit FolderReader(ReportData& data) : data_(data) {}

  // `lacks`: what the page does without the file.
  json object(const char* name, const char* lacks) {
    const auto text = io::read_file(path(name));
    json parsed = text ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
    if (parsed.is_object()) return parsed;
    data_.missing.push_back(
        fmt::format("{} {}: no {}", name, text ? "is damaged" : "is missing", lacks));
    return json();
  }

  // The lines that are whole: a living run may be writing the last one.
  std::vector<json> lines(const char* name, const char* lacks) {
    std::vector<json> lines;
    const auto text = io::read_file(path(name));
    std::istringstream stream(text.value_or(""));
    std::int64_t damaged = 0;
    for (std::string line; std::getline(stream, line);) {
      json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
      const bool is_step = parsed.is_object() && parsed.contains("step");
      if (is_step) {
        lines.push_back(std::move(parsed));
      } else {
        damaged += stream.eof() ? 0 : 1;
      }
    }
    if (lines.empty()) {
      data_.missing.push_back(
          fmt::format("{} {}: no {}", name, text ? "has no step yet" : "is missing", lacks));
    }
    if (damaged > 0) {
      data_.missing.push_back(fmt::format("{}: {} of its lines are damaged", name, damaged));
    }
    return lines;
  }

 private:
  std::string path(const char* name) const {
    return (std::filesystem::path(data_.folder) / name).string();
  }
  ReportData& data_;
};

}  // namespace

ReportData read_report_data(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw_error<ConfigError>("{}: {}; name the folder of a run (--run of train)", folder,
                             error ? error.message() : "is not a folder");
  }
  if (!std::filesystem::exists(std::filesystem::path(folder) / kOptionsFile, error)) {
    throw_error<ConfigError>(
        "{}: {} is missing, so there is no run in it; name the folder of a "
        "run (--run of train)",
        folder, kOptionsFile);
  }
  ReportData data;
  data.folder = folder;
  FolderReader reader(data);
  data.options = reader.object(kOptionsFile, "options");
  if (data.options.is_object() && !data.options.contains("model")) {
    throw_error<ConfigError>(
        "{}: {} names no model, so it is of no run; name the folder of a run (--run of train)",
        folder, kOptionsFile);
  }
  data.plan = reader.object(kPlanFile, "plan and budgets");
  data.arithmetic = reader.object(kArithmeticFile, "facts of the machine's arithmetic");
  data.log = reader.lines(kLogFile, "curves of loss, learning rate, time and bytes");
  data.profile = reader.lines(kProfileFile, "memory over time");
  data.timeline =
      reader.object(kTimelineFile, "timelines, and no table of where the time of a step went");
  return data;
}

std::vector<const json*> thinned(const std::vector<json>& lines, std::size_t lines_max,
                                 const char* keep) {
  std::vector<const json*> kept;
  const std::size_t every = (lines.size() + lines_max - 1) / std::max<std::size_t>(1, lines_max);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_kept = i % std::max<std::size_t>(1, every) == 0 || i + 1 == lines.size();
    const bool is_marked = keep != nullptr && lines[i].contains(keep) && !lines[i][keep].is_null();
    if (is_kept || is_marked) kept.push_back(&lines[i]);
  }
  return kept;
}

}  // namespace strata::engine
