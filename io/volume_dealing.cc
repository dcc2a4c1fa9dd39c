#include "io/volume_dealing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "io/drive_rate.h"
#include "io/drive_space.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

// Bytes per second of each directory. Those on one drive are measured once and share what it does.
std::vector<std::int64_t> weigh(const VolumeOptions& options) {
  const std::vector<VolumeDirectory>& directories = options.directories;
  if (directories.size() == 1) return {1};
  std::vector<std::string> drives;
  for (const VolumeDirectory& directory : directories) drives.push_back(drive_of(directory.path));
  std::map<std::string, double> measured;
  std::vector<std::int64_t> weights;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    double rate = directories[i].bytes_per_second;
    if (rate == 0) {
      if (!measured.contains(drives[i])) {
        measured[drives[i]] =
            measure_drive_rate(directories[i].path, {.engine = options.engine.kind,
                                                     .queue_depth = options.queue_depth,
                                                     .request_bytes_max = options.request_bytes_max,
                                                     .timeout = options.timeout});
      }
      rate = measured[drives[i]] / static_cast<double>(std::ranges::count(drives, drives[i]));
    }
    // One that was too full to measure comes after all others.
    weights.push_back(std::max<std::int64_t>(std::llround(rate), 1));
  }
  return weights;
}

}  // namespace

StripeMap deal_stripes(const VolumeOptions& options) {
  const std::int64_t stripes = ceil_div(options.capacity_bytes, options.stripe_bytes);
  const auto directories = static_cast<std::int64_t>(options.directories.size());
  // Of what is free in a directory, less than a stripe may be left over.
  const std::int64_t spare_stripes = directories > 1 ? directories : 0;
  std::vector<std::string> paths;
  for (const VolumeDirectory& directory : options.directories) paths.push_back(directory.path);
  const std::vector<DriveSpace> drives = look_at_drives(paths);
  check_total_free(drives, (stripes + spare_stripes) * options.stripe_bytes +
                               directories * options.metadata_bytes);

  // Directories on one file system share its space as they share the work.
  const std::vector<std::int64_t> weights = weigh(options);
  std::vector<double> weights_on(drives.size(), 0);  // of the file system
  for (std::size_t i = 0; i < drives.size(); ++i) {
    weights_on[static_cast<std::size_t>(drives[i].file_system)] += static_cast<double>(weights[i]);
  }
  std::vector<StripeShare> rooms;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    const double part = static_cast<double>(weights[i]) /
                        weights_on[static_cast<std::size_t>(drives[i].file_system)];
    const auto bytes = static_cast<std::int64_t>(part * static_cast<double>(drives[i].free_bytes)) -
                       options.metadata_bytes;
    rooms.push_back({weights[i], std::max<std::int64_t>(bytes, 0) / options.stripe_bytes});
  }
  return StripeMap(rooms, stripes);
}

}  // namespace strata::io
