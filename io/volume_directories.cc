#include "io/volume_directories.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/drive_space.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPerSecond = "/s";
constexpr double kBytesPerSecondMax = 1e15;

// The last '=' begins the bandwidth.
VolumeDirectory parse_directory(std::string_view part) {
  const std::size_t equals = part.rfind('=');
  if (equals == std::string_view::npos) return {std::string(part), 0};
  const std::string_view rate = part.substr(equals + 1);
  double bytes_per_second = 0;
  if (rate.ends_with(kPerSecond)) {
    try {
      const std::string_view bytes = rate.substr(0, rate.size() - kPerSecond.size());
      bytes_per_second = static_cast<double>(parse_bytes(bytes));
    } catch (const ConfigError&) {  // said below, with the part it stands in
    }
  }
  if (bytes_per_second <= 0 || bytes_per_second > kBytesPerSecondMax || equals == 0) {
    throw_error<ConfigError>(
        "'{}' is not understood: give DIRECTORY=BANDWIDTH with a bandwidth such as 7GB/s", part);
  }
  return {std::string(part.substr(0, equals)), bytes_per_second};
}

bool same_directory(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // One that is missing is compared by its path.
  const fs::path path_a = fs::weakly_canonical(fs::absolute(a) / "", error);
  const fs::path path_b = fs::weakly_canonical(fs::absolute(b) / "", error);
  return !path_a.empty() && path_a == path_b;
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}}};
  for (const auto& [unit, name] : kUnits) {
    if (std::fmod(bytes_per_second, unit) == 0) {
      return fmt::format("{:.0f}{}/s", bytes_per_second / unit, name);
    }
  }
  return fmt::format("{:.0f}/s", bytes_per_second);
}

}  // namespace

std::vector<VolumeDirectory> parse_directories(std::string_view text) {
  std::vector<VolumeDirectory> directories;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (part.empty()) {
      throw_error<ConfigError>("'{}' has an empty part: give DIRECTORY[=BANDWIDTH][,…]", text);
    }
    VolumeDirectory directory = parse_directory(part);
    for (const VolumeDirectory& other : directories) {
      if (same_directory(directory.path, other.path)) {
        throw_error<ConfigError>("'{}' and '{}' are the same directory; give it once", other.path,
                                 directory.path);
      }
    }
    directories.push_back(std::move(directory));
    begin = end + 1;
  }
  if (std::ssize(directories) > kVolumeDirectoriesMax) {
    throw_error<ConfigError>("{} directories: at most {} can hold a volume", directories.size(),
                             kVolumeDirectoriesMax);
  }
  return directories;
}

std::string format_directories(const std::vector<VolumeDirectory>& directories) {
  std::string text;
  for (const VolumeDirectory& directory : directories) {
    if (!text.empty()) text += ',';
    text += directory.path;
    if (directory.bytes_per_second > 0) {
      text += '=';
      text += format_rate(directory.bytes_per_second);
    }
  }
  return text;
}

std::vector<std::string> paths_of(const std::vector<VolumeDirectory>& directories) {
  std::vector<std::string> paths;
  for (const VolumeDirectory& directory : directories) paths.push_back(directory.path);
  return paths;
}

std::vector<std::int64_t> check_directories(const std::vector<VolumeDirectory>& directories,
                                            std::int64_t needed_bytes) {
  const std::vector<DriveSpace> drives = look_at_drives(paths_of(directories));
  check_free(drives, kPageBytes, needed_bytes);
  std::vector<std::int64_t> free_bytes;
  for (const DriveSpace& drive : drives) free_bytes.push_back(drive.free_bytes);
  return free_bytes;
}

}  // namespace strata::io
