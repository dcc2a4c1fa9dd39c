#include "io/volume_dealing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/drive_rate.h"
#include "io/drive_space.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

// No drive is filled to the last byte while another has room: the next rank needs some there too.
constexpr double kUsableShare = 15.0 / 16;

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
        measured[drives[i]] = measure_drive_rate(directories[i].path, options.engine);
      }
      rate = measured[drives[i]] / static_cast<double>(std::ranges::count(drives, drives[i]));
    }
    // One that was too full to measure comes after all others.
    weights.push_back(std::max<std::int64_t>(std::llround(rate), 1));
  }
  return weights;
}

// Where `usable_share` of what is free may be used. Directories on one file system share its space
// as they share the work.
std::vector<StripeShare> rooms_of(const VolumeOptions& options, std::span<const DriveSpace> drives,
                                  std::span<const std::int64_t> weights, double usable_share) {
  std::vector<StripeShare> rooms;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    double weights_on_it = 0;
    std::int64_t metadata_on_it = 0;
    for (std::size_t j = 0; j < drives.size(); ++j) {
      if (drives[j].file_system != drives[i].file_system) continue;
      weights_on_it += static_cast<double>(weights[j]);
      metadata_on_it += options.metadata_bytes;
    }
    const double usable_bytes = usable_share * static_cast<double>(drives[i].free_bytes) -
                                static_cast<double>(metadata_on_it);
    const double bytes = usable_bytes * static_cast<double>(weights[i]) / weights_on_it;
    rooms.push_back(
        {weights[i], static_cast<std::int64_t>(std::max(bytes, 0.0)) / options.stripe_bytes});
  }
  return rooms;
}

std::int64_t stripes_in(std::span<const StripeShare> rooms) {
  std::int64_t stripes = 0;
  for (const StripeShare& room : rooms) stripes += room.stripes;
  return stripes;
}

}  // namespace

StripeMap deal_stripes(const VolumeOptions& options) {
  const std::int64_t stripes = ceil_div(options.capacity_bytes, options.stripe_bytes);
  const auto directories = static_cast<std::int64_t>(options.directories.size());
  // Of what is free in a directory, less than a stripe may be left over.
  const std::int64_t spare_stripes = directories > 1 ? directories : 0;
  const std::vector<DriveSpace> drives = look_at_drives(paths_of(options.directories));
  check_free(
      drives, options.metadata_bytes,
      (stripes + spare_stripes) * options.stripe_bytes + directories * options.metadata_bytes);
  const std::vector<std::int64_t> weights = weigh(options);
  std::vector<StripeShare> rooms = rooms_of(options, drives, weights, kUsableShare);
  if (stripes_in(rooms) < stripes) rooms = rooms_of(options, drives, weights, 1);
  return StripeMap(rooms, stripes);
}

}  // namespace strata::io
