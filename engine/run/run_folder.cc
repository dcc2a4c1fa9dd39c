#include "engine/run/run_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/options/option_list.h"
#include "engine/run/text_file.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

// A number or boolean where that is what the text says, exactly; otherwise a string.
nlohmann::ordered_json json_value(const std::string& text) {
  const auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_plain = value.is_number() || value.is_boolean();
  return is_plain && value.dump() == text ? value : nlohmann::ordered_json(text);
}

constexpr const char* kOptionsFile = "options.json";
constexpr const char* kPlanFile = "plan.json";
constexpr const char* kArithmeticFile = "arithmetic.json";
constexpr const char* kLogFile = "log.jsonl";

// `path` and the directories on the way to it that do not exist, deepest first.
std::vector<fs::path> missing_directories(fs::path path) {
  std::vector<fs::path> missing;
  while (!path.empty() && !fs::exists(path)) {
    missing.push_back(path);
    path = path.parent_path();
  }
  return missing;
}

}  // namespace

void check_run_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (!fs::is_directory(status)) {
    throw_error<ConfigError>("--run {}: {}; choose another", path,
                             error ? error.message() : "is not a directory");
  }
  const bool is_empty = fs::is_empty(path, error);
  if (error) throw_error<ConfigError>("--run {}: {}; choose another", path, error.message());
  if (!is_empty) {
    throw_error<ConfigError>("--run {}: the folder is not empty; choose another", path);
  }
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  check_run_folder(path_);
  for (const fs::path& directory : missing_directories(fs::path(path_).lexically_normal())) {
    created_.push_back(directory.string());
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    remove_what_is_ours();
    throw_error<IoError>("create the folder of --run {}: {}", path_, error.message());
  }
}

RunFolder::~RunFolder() {
  if (!kept_) remove_what_is_ours();
}

// Other runs may have put theirs beside ours meanwhile: files by name, and only empty directories.
void RunFolder::remove_what_is_ours() noexcept {
  std::error_code ignored;
  for (const char* const name : {kOptionsFile, kPlanFile, kArithmeticFile, kLogFile}) {
    fs::remove(fs::path(path_) / name, ignored);
  }
  for (const std::string& directory : created_) fs::remove(directory, ignored);
}

std::string RunFolder::log_path() const { return path_ + "/" + kLogFile; }

void RunFolder::write_options(const Options& options) {
  nlohmann::ordered_json object;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(CommandKind::train) || spec.of_a_start) continue;
    object[spec.name] = spec.is_flag ? nlohmann::ordered_json(spec.get(options) == "on")
                                     : json_value(spec.get(options));
  }
  write_file(kOptionsFile,
             object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void RunFolder::write_plan(std::string_view json) { write_file(kPlanFile, json); }

void RunFolder::write_arithmetic(std::string_view json) { write_file(kArithmeticFile, json); }

void RunFolder::write_file(const std::string& name, std::string_view text) {
  TextFile(path_ + "/" + name).write(text);
}

}  // namespace strata::engine
