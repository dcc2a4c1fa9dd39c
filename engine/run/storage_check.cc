#include "engine/run/storage_check.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "engine/run/run_store.h"
#include "engine/tools/gc_command.h"
#include "io/drive_space.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

namespace fs = std::filesystem;

std::string nearest_existing(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there, for us
  fs::path nearest = fs::absolute(path).lexically_normal();
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  return nearest;
}

void look_for_left_stores(std::vector<NvmeDirectory>& directories) {
  for (NvmeDirectory& directory : directories) {
    try {
      directory.left = left_over(directory.path);
    } catch (const IoError&) {  // whether it can be used is found out by check_directories()
    }
  }
}

}  // namespace

NvmeSpace check_nvme_space(const RunSetup& setup) {
  const Options& options = setup.options;
  std::vector<io::VolumeDirectory> directories = store_directories(options);
  NvmeSpace space;
  space.needed_bytes = store_bytes(setup, std::max<std::size_t>(1, directories.size()));
  for (const io::VolumeDirectory& directory : directories) {
    space.directories.emplace_back().path = directory.path;
  }
  if (options.nvme.empty()) {
    if (space.needed_bytes == 0) return space;
    for (io::VolumeDirectory& directory : directories) {
      directory.path = nearest_existing(directory.path);
    }
  }
  if (directories.empty()) return space;
  if (setup.topology.rank == 0) look_for_left_stores(space.directories);
  try {
    const std::vector<std::int64_t> free_bytes =
        io::check_directories(directories, space.needed_bytes);
    for (std::size_t d = 0; d < directories.size(); ++d) {
      space.directories[d].free_bytes = free_bytes[d];
    }
  } catch (const ConfigError& e) {
    std::string left = left_stores_text(space.directories);
    std::replace(left.begin(), left.end(), '\n', ';');
    throw_error<ConfigError>("{}: {}{}{}", store_option(options), e.what(),
                             left.empty() ? "" : "; ", left);
  }
  return space;
}

void check_space_beside(const RunSetup& setup, const std::vector<DeadSpace>& dead) {
  std::vector<std::string> paths = io::paths_of(store_directories(setup.options));
  const std::size_t targets = paths.size();
  const std::int64_t needed_bytes = store_bytes(setup, targets);
  if (needed_bytes == 0) return;
  for (const DeadSpace& space : dead) paths.push_back(space.directory);
  try {
    std::vector<io::DriveSpace> drives = io::look_at_drives(paths);
    for (std::size_t i = 0; i < dead.size(); ++i) {
      const auto owner = static_cast<std::size_t>(drives[targets + i].file_system);
      if (owner < targets) drives[owner].free_bytes += dead[i].bytes;
    }
    io::check_free(std::span(drives).first(targets), kPageBytes, needed_bytes);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>(
        "{}: {}; a new store is made beside the one that the run has, whose space that can be "
        "given back is counted as free",
        store_option(setup.options), e.what());
  }
}

std::string left_stores_text(const std::vector<NvmeDirectory>& directories) {
  std::string text;
  for (const NvmeDirectory& directory : directories) {
    if (directory.left.stale + directory.left.forced == 0) continue;
    text +=
        fmt::format("{}{}: {}; {}", text.empty() ? "" : "\n", directory.path,
                    left_over_text(directory.left), reclaim_advice(directory.left, directory.path));
  }
  return text;
}

}  // namespace strata::engine
