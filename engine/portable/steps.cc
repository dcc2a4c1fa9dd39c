#include "engine/portable/steps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/portable/folder.h"
#include "engine/portable/index.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-";

// Complete folders of steps, of any run.
std::vector<fs::path> step_folders(const std::string& directory) {
  std::vector<fs::path> folders;
  if (!fs::is_directory(directory)) return folders;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path& path = entry.path();
    if (path.filename().string().starts_with(kStepPrefix) && fs::exists(path / kPortableIndexFile))
      folders.push_back(path);
  }
  return folders;
}

// A folder there, or one that can be made in the nearest that exists.
void check_folder(const char* option, const std::string& named) {
  fs::path path = folder_path(named);
  while (!fs::exists(path) && path.has_relative_path()) path = path.parent_path();
  int error = 0;
  if (!fs::is_directory(path)) {
    error = ENOTDIR;
  } else if (::access(path.c_str(), W_OK | X_OK) != 0) {
    error = errno;
  }
  if (error == 0) return;
  throw_error<ConfigError>("{} {}: {}: {}; give a folder that can be written", option, named,
                           path.string(), std::strerror(error));
}

}  // namespace

std::string run_name(const std::string& run_folder) {
  return fs::weakly_canonical(folder_path(run_folder));
}

bool is_of_run(const std::string& folder, const std::string& run) {
  if (!fs::exists(fs::path(folder) / kPortableIndexFile)) return false;
  return read_portable_index(folder).origin.run == run;
}

std::string step_folder_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

void keep_newest_steps(const std::string& directory, std::int64_t keep, const std::string& run) {
  std::vector<std::pair<fs::file_time_type, std::string>> folders;
  for (const fs::path& path : step_folders(directory)) {
    if (!is_of_run(path, run)) continue;
    folders.emplace_back(fs::last_write_time(path / kPortableIndexFile), path);
  }
  std::ranges::sort(folders);
  const std::int64_t surplus = std::ssize(folders) - keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    remove_folder(folders[static_cast<std::size_t>(i)].second);
  }
}

void check_checkpoint_directory(const std::string& directory, const std::string& run) {
  check_folder("--checkpoint-to", directory);
  for (const fs::path& path : step_folders(directory)) {
    const std::string owner = read_portable_index(path).origin.run;
    if (owner == run) continue;
    throw_error<ConfigError>(
        "--checkpoint-to {}: {} is of another run, {}; give each run a folder of its own",
        directory, path.filename().string(), owner);
  }
}

void check_export_folder(const std::string& folder, const std::string& run) {
  const std::string path = folder_path(folder);
  if (fs::exists(path) && !is_of_run(path, run)) {
    throw_error<ConfigError>("--export {}: it exists already; choose another folder", folder);
  }
  check_folder("--export", fs::path(path).parent_path());
}

}  // namespace strata::engine
