#include "engine/run/storage_check.h"

#include <filesystem>
#include <system_error>

#include "io/file_storage.h"
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

std::int64_t check_directory(const char* option, const std::string& directory,
                             std::int64_t needed_bytes) {
  try {
    return io::check_storage_directory(directory, needed_bytes);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", option, e.what());
  }
}

}  // namespace

NvmeSpace check_nvme_space(const RunSetup& setup) {
  const Options& options = setup.options;
  NvmeSpace space;
  space.needed_bytes =
      setup.plan.total_bytes(offload::Tier::nvme) * setup.topology.local_world_size;
  if (!options.nvme.empty()) {
    space.directory = options.nvme;
    space.free_bytes = check_directory("--nvme", options.nvme, space.needed_bytes);
  } else if (!options.run.empty()) {
    space.directory = options.run;
    if (space.needed_bytes > 0) {
      space.free_bytes =
          check_directory("--run", nearest_existing(options.run), space.needed_bytes);
    }
  }
  return space;
}

}  // namespace strata::engine
