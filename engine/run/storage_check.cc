#include "engine/run/storage_check.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/run/run_store.h"
#include "io/volume.h"
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

}  // namespace

NvmeSpace check_nvme_space(const RunSetup& setup) {
  const Options& options = setup.options;
  std::vector<io::VolumeDirectory> directories = store_directories(options);
  NvmeSpace space;
  space.needed_bytes = store_bytes(setup, std::max<std::size_t>(1, directories.size()));
  for (const io::VolumeDirectory& directory : directories) {
    space.directories.push_back({directory.path, std::nullopt});
  }
  if (options.nvme.empty()) {
    if (space.needed_bytes == 0) return space;
    for (io::VolumeDirectory& directory : directories) {
      directory.path = nearest_existing(directory.path);
    }
  }
  if (directories.empty()) return space;
  try {
    const std::vector<std::int64_t> free_bytes =
        io::check_directories(directories, space.needed_bytes);
    for (std::size_t d = 0; d < directories.size(); ++d) {
      space.directories[d].free_bytes = free_bytes[d];
    }
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", store_option(options), e.what());
  }
  return space;
}

}  // namespace strata::engine
