#include "engine/run/drive_lives.h"

#include <fmt/format.h>

#include "engine/options/endurance.h"
#include "engine/run/run_store.h"

namespace strata::engine {

std::vector<DriveLife> drives_of(const Options& options) {
  const std::vector<io::VolumeDirectory> directories = store_directories(options);
  const auto endurance = parse_endurance(options.nvme_endurance, directories.size());
  double sum = 0;
  bool given = true;
  for (const io::VolumeDirectory& directory : directories) {
    sum += directory.bytes_per_second;
    given = given && directory.bytes_per_second > 0;
  }
  std::vector<DriveLife> drives;
  for (std::size_t d = 0; d < directories.size(); ++d) {
    const double share =
        given ? directories[d].bytes_per_second / sum : 1 / static_cast<double>(directories.size());
    drives.push_back({directories[d].path, share, endurance.empty() ? 0 : endurance[d]});
  }
  return drives;
}

std::vector<DriveLife> drives_of(const MachineDescription& machine) {
  const DriveDescription& drive = machine.drive;
  if (drive.count == 0) return {};
  return {{fmt::format("each {}", drive.name), 1.0 / drive.count, drive.endurance_bytes}};
}

}  // namespace strata::engine
