#include "engine/portable/steps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/portable/folder.h"
#include "engine/portable/index.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

struct StepFolder {
  fs::path path;
  std::int64_t step = 0;
};

// The step that a name has behind the prefix, and nothing else.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [parsed_to, error] = std::from_chars(name.data(), end, step);
  if (error != std::errc() || parsed_to != end) return std::nullopt;
  return step;
}

bool is_complete(const StepFolder& folder) { return fs::exists(folder.path / kPortableIndexFile); }

// Whatever has the name of one, of any run or none.
std::vector<StepFolder> step_folders(const StepFolders& folders) {
  std::vector<StepFolder> found;
  if (!fs::is_directory(folders.directory)) return found;
  for (const auto& entry : fs::directory_iterator(folders.directory)) {
    const auto step = step_of(entry.path().filename().string(), folders.prefix);
    if (step) found.push_back({entry.path(), *step});
  }
  return found;
}

std::vector<StepFolder> complete_folders(const StepFolders& folders) {
  std::vector<StepFolder> found = step_folders(folders);
  std::erase_if(found, [](const StepFolder& folder) { return !is_complete(folder); });
  return found;
}

bool is_of_run(const PortableIndex& index, const std::string& run) {
  return index.origin.run == (index.content == PortableContent::weights ? run_mark(run) : run);
}

void check_owner(const std::string& option, const StepFolders& folders, const std::string& run) {
  for (const StepFolder& folder : step_folders(folders)) {
    if (!is_complete(folder)) {
      throw_error<ConfigError>("{}: {} is there already, and no run wrote it; move it away", option,
                               folder.path.filename().string());
    }
    const PortableIndex index = read_portable_index(folder.path);
    if (is_of_run(index, run)) continue;
    const bool names_it = index.content == PortableContent::training_state;
    throw_error<ConfigError>("{}: {} is of another run{}; give each run a folder of its own",
                             option, folder.path.filename().string(),
                             names_it ? ", " + index.origin.run : "");
  }
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

std::string run_mark(const std::string& run_name) {
  const auto bytes = std::as_bytes(std::span(run_name));
  return fmt::format("{:016x}", portable_checksum(bytes.data(), std::ssize(bytes)));
}

bool is_of_run(const std::string& folder, const std::string& run) {
  if (!fs::exists(fs::path(folder) / kPortableIndexFile)) return false;
  return is_of_run(read_portable_index(folder), run);
}

std::string snapshot_prefix(const std::string& export_folder) {
  return fs::path(folder_path(export_folder)).filename().string() + "-step-";
}

std::string step_folder_name(std::int64_t step, std::string_view prefix) {
  return fmt::format("{}{:08}", prefix, step);
}

std::int64_t newest_step(const StepFolders& folders, std::int64_t last, const std::string& run) {
  std::int64_t newest = 0;
  for (const StepFolder& folder : complete_folders(folders)) {
    if (folder.step <= last && is_of_run(folder.path, run)) newest = std::max(newest, folder.step);
  }
  return newest;
}

void keep_newest_steps(const StepFolders& folders, std::int64_t keep, const std::string& run) {
  std::vector<std::pair<fs::file_time_type, std::string>> written;
  for (const StepFolder& folder : complete_folders(folders)) {
    if (!is_of_run(folder.path, run)) continue;
    written.emplace_back(fs::last_write_time(folder.path / kPortableIndexFile), folder.path);
  }
  std::ranges::sort(written);
  const std::int64_t surplus = std::ssize(written) - keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    remove_folder(written[static_cast<std::size_t>(i)].second);
  }
}

void check_checkpoint_directory(const std::string& directory, const std::string& run) {
  check_folder("--checkpoint-to", directory);
  check_owner("--checkpoint-to " + directory, {directory}, run);
}

void check_export_folder(const std::string& folder, const std::string& run) {
  const std::string path = folder_path(folder);
  if (fs::exists(path) && !is_of_run(path, run)) {
    throw_error<ConfigError>("--export {}: it exists already; choose another folder", folder);
  }
  check_folder("--export", fs::path(path).parent_path());
}

void check_snapshots(const std::string& export_folder, const std::string& run) {
  const fs::path directory = fs::path(folder_path(export_folder)).parent_path();
  check_owner("--export-every beside " + export_folder, {directory, snapshot_prefix(export_folder)},
              run);
}

}  // namespace strata::engine
