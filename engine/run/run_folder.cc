#include "engine/run/run_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

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

// The highest of the directories on the way to `path` that does not exist.
fs::path topmost_missing(const fs::path& path) {
  fs::path missing = path;
  while (missing.has_parent_path() && !fs::exists(missing.parent_path())) {
    missing = missing.parent_path();
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
  if (fs::exists(path_)) return;
  created_ = topmost_missing(fs::path(path_).lexically_normal());
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(created_, ignored);
    throw_error<IoError>("create the folder of --run {}: {}", path_, error.message());
  }
}

RunFolder::~RunFolder() {
  if (kept_) return;
  std::error_code ignored;
  if (!created_.empty()) {
    fs::remove_all(created_, ignored);
    return;
  }
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
}

void RunFolder::write_options(const Options& options) {
  nlohmann::ordered_json object;
  for (const OptionSpec& spec : option_list()) {
    object[spec.name] = spec.is_flag ? nlohmann::ordered_json(spec.get(options) == "on")
                                     : json_value(spec.get(options));
  }
  write_file("options.json", object.dump(2) + "\n");
}

void RunFolder::write_plan(std::string_view json) { write_file("plan.json", json); }

void RunFolder::write_arithmetic(std::string_view json) { write_file("arithmetic.json", json); }

void RunFolder::write_file(const std::string& name, std::string_view text) {
  TextFile(path_ + "/" + name).write(text);
}

}  // namespace strata::engine
