// Stores on disk as a run makes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/volume.h"
#include "offload/store/store_files.h"
#include "tests/offload/store/small_manifest.h"

namespace strata::store::testing {

// Locked while the volume lives, and deleted with it unless kept.
inline std::unique_ptr<io::Volume> make_store(const std::vector<std::string>& directories,
                                              const StoreIdentity& identity,
                                              const Manifest& manifest = small_manifest()) {
  io::VolumeOptions options;
  for (std::size_t d = 0; d < directories.size(); ++d) {
    options.directories.push_back({directories[d], 1e9 * static_cast<double>(d + 1)});
  }
  options.file_name = store_file_name(identity);
  options.capacity_bytes = manifest.data_bytes;
  options.metadata_bytes = store_metadata_bytes(manifest);
  options.stripe_bytes = 64 << 10;
  auto volume = io::create_volume(options, nullptr);
  write_header(*volume, identity, manifest);
  volume->publish();
  return volume;
}

// As a run leaves it that was killed; returns the file's name.
inline std::string leave_store(const std::vector<std::string>& directories,
                               const StoreIdentity& identity,
                               const Manifest& manifest = small_manifest()) {
  make_store(directories, identity, manifest)->keep();
  return store_file_name(identity);
}

}  // namespace strata::store::testing
