#include "engine/run/run_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/checkpoint/run_options.h"
#include "engine/checkpoint/store_pointer.h"
#include "engine/options/run_files.h"
#include "engine/profile/profile_json.h"
#include "engine/run/log_cut.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"
#include "offload/store/store_files.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "plan.json";

// `path` and the directories on the way to it that do not exist, deepest first.
std::vector<fs::path> missing_directories(fs::path path) {
  std::vector<fs::path> missing;
  while (!path.empty() && !fs::exists(path)) {
    missing.push_back(path);
    path = path.parent_path();
  }
  return missing;
}

enum class Content : std::uint8_t { nothing, run, others };

// Before options.json is complete, a run that is killed leaves its lock, the file's beginning and a
// store that nothing points to.
Content content_of(const fs::path& folder, std::error_code& error) {
  if (fs::exists(folder / kRunOptionsFile, error)) return Content::run;
  const std::string unfinished = kRunOptionsFile + std::string(io::kUnfinishedSuffix);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_of_a_start =
        name == kRunLockFile || name == unfinished || store::is_store_file_name(name);
    if (!is_of_a_start) return Content::others;
  }
  return Content::nothing;
}

}  // namespace

FolderUse folder_use(const Options& options) {
  return options.resume ? FolderUse::go_on : FolderUse::begin;
}

void check_run_folder(const std::string& path, FolderUse use) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (!fs::is_directory(status)) {
    throw_error<ConfigError>("--run {}: {}; choose another", path,
                             error ? error.message() : "is not a directory");
  }
  const Content content = content_of(path, error);
  if (error) throw_error<ConfigError>("--run {}: {}; choose another", path, error.message());
  if (content == Content::others) {
    throw_error<ConfigError>(
        "--run {}: the folder is not empty, and there is no run in it: {} is missing; choose "
        "another",
        path, kRunOptionsFile);
  }
  if (content == Content::run && use == FolderUse::begin) {
    throw_error<ConfigError>(
        "--run {}: there is a run in this folder; go on with it by --resume, or choose another",
        path);
  }
}

RunFolder::RunFolder(std::string path, FolderUse use) : path_(std::move(path)) {
  check_run_folder(path_, use);
  try {
    create_directories();
    lock_.emplace(path_);
    check_run_folder(path_, use);  // another process may have begun a run before the lock was ours
  } catch (...) {
    remove_directories();
    throw;
  }
  has_run_ = fs::exists(path_of(kRunOptionsFile));
  kept_ = has_run_;
}

RunFolder::~RunFolder() {
  if (kept_) return;
  remove_files();
  remove_directories();
}

void RunFolder::create_directories() {
  for (const fs::path& directory : missing_directories(fs::path(path_).lexically_normal())) {
    created_.push_back(directory.string());
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw_error<IoError>("create the folder of --run {}: {}", path_, error.message());
  for (const std::string& directory : created_) {
    const std::string parent = fs::path(directory).parent_path().string();
    io::flush_directory(parent.empty() ? "." : parent);
  }
}

// The lock last: until then nobody else begins here.
void RunFolder::remove_files() noexcept {
  std::error_code ignored;
  for (const char* const name : {kRunOptionsFile, kDataFile, kPlanFile, kArithmeticFile,
                                 kStorePointerFile, kLogFile, kProfileFile, kTimelineFile}) {
    fs::remove(path_of(name), ignored);
  }
  fs::remove_all(path_of(kKeptModelFolder), ignored);
  lock_->remove_file();
}

// Other runs may have put theirs beside ours meanwhile: only empty ones.
void RunFolder::remove_directories() noexcept {
  std::error_code ignored;
  for (const std::string& directory : created_) fs::remove(directory, ignored);
}

std::string RunFolder::path_of(std::string_view name) const {
  return (fs::path(path_) / name).string();
}

std::string RunFolder::log_path() const { return path_of(kLogFile); }

void RunFolder::write_options(const Options& options) {
  io::replace_file(path_of(kRunOptionsFile), run_options_json(options));
}

void RunFolder::write_data(std::string_view json) { io::replace_file(path_of(kDataFile), json); }

void RunFolder::write_plan(std::string_view json) { io::replace_file(path_of(kPlanFile), json); }

void RunFolder::write_arithmetic(std::string_view json) {
  io::replace_file(path_of(kArithmeticFile), json);
}

// config.json last: with it the others are there too.
void RunFolder::write_model(const ModelFiles& files) {
  if (files.empty() || !kept_model_folder(path_).empty()) return;
  const fs::path folder = path_of(kKeptModelFolder);
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) throw_error<IoError>("create {}: {}", folder.string(), error.message());
  io::flush_directory(path_);
  for (const auto& [name, text] : files) {
    if (name != kModelConfigFile) io::replace_file((folder / name).string(), text);
  }
  io::replace_file((folder / kModelConfigFile).string(), files.at(kModelConfigFile));
}

void RunFolder::cut_log(std::int64_t step, std::optional<double> validation_loss) {
  engine::cut_log(log_path(), step, validation_loss);
  engine::cut_log(path_of(kProfileFile), step);
}

}  // namespace strata::engine
