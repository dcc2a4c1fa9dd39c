// The directories of a volume as text (--nvme), and what they have to offer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::io {

struct VolumeDirectory {
  std::string path;
  double bytes_per_second = 0;  // 0: measured where there are several directories
};

inline constexpr int kVolumeDirectoriesMax = 128;

// "/a=7GB/s,/b" (--nvme). Throws ConfigError naming the part that is not understood, or a directory
// that comes twice.
std::vector<VolumeDirectory> parse_directories(std::string_view text);
std::string format_directories(const std::vector<VolumeDirectory>& directories);

std::vector<std::string> paths_of(const std::vector<VolumeDirectory>& directories);

// What create_volume() checks, without creating anything that outlives the call; returns the free
// bytes of each directory.
std::vector<std::int64_t> check_directories(const std::vector<VolumeDirectory>& directories,
                                            std::int64_t needed_bytes);

}  // namespace strata::io
