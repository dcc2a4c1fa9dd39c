#include "kernels/base/control_groups.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "kernels/base/system_file.h"

namespace strata {
namespace {

// "cpu" in "cpu,cpuacct".
bool lists(std::string_view comma_separated, std::string_view name) {
  std::size_t begin = 0;
  while (begin <= comma_separated.size()) {
    const std::size_t end = std::min(comma_separated.find(',', begin), comma_separated.size());
    if (comma_separated.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

struct Membership {
  std::string v1_path;  // of the controller's own hierarchy; "" if there is none
  std::string v2_path;
};

// Lines of /proc/self/cgroup: "4:memory:/group" (v1), "0::/group" (v2).
Membership read_membership(const std::string& system_root, const std::string& controller) {
  Membership membership;
  std::istringstream lines(read_system_file(system_root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (lists(controllers, controller)) membership.v1_path = line.substr(second + 1);
    if (controllers.empty()) membership.v2_path = line.substr(second + 1);
  }
  return membership;
}

struct Mount {
  std::string root;  // the group that is mounted: not "/" in many containers
  std::string point;
};

// Lines of /proc/self/mountinfo: id parent dev ROOT POINT options [fields…] - TYPE source OPTIONS.
std::optional<Mount> find_mount(const std::string& system_root, std::string_view type,
                                std::string_view controller) {
  std::istringstream lines(read_system_file(system_root + "/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped, word, found_type, source, options;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    while (words >> word && word != "-") {
    }
    words >> found_type >> source >> options;
    if (found_type == type && (controller.empty() || lists(options, controller))) return mount;
  }
  return std::nullopt;
}

// The folder of the group `path` and of all groups above it, up to the mount.
std::vector<std::string> group_folders(const std::string& system_root, const Mount& mount,
                                       std::string path) {
  if (mount.root != "/") {
    // A path outside what is mounted cannot be followed; the mounted group itself can.
    path = path.starts_with(mount.root) ? path.substr(mount.root.size()) : "";
  }
  while (path.ends_with('/')) path.pop_back();
  std::vector<std::string> folders;
  while (!path.empty()) {
    folders.push_back(system_root + mount.point + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(system_root + mount.point);
  return folders;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const std::string text = read_system_file(path).value_or("");
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;  // "max" among others
  return number;
}

template <typename T>
void lower(std::optional<T>& least, std::optional<T> value) {
  if (value && (!least || *value < *least)) least = value;
}

std::optional<double> quota_v1(const std::string& folder) {
  const auto quota_us = read_number(folder + "/cpu.cfs_quota_us");
  const auto period_us = read_number(folder + "/cpu.cfs_period_us");
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

std::optional<double> quota_v2(const std::string& folder) {
  std::istringstream words(read_system_file(folder + "/cpu.max").value_or(""));
  double quota_us = 0;
  double period_us = 0;
  if (!(words >> quota_us >> period_us) || period_us <= 0) return std::nullopt;  // "max 100000"
  return quota_us / period_us;
}

std::optional<std::int64_t> room(std::optional<std::int64_t> limit_bytes,
                                 std::optional<std::int64_t> used_bytes, std::string_view stat,
                                 std::string_view inactive_key, std::string_view active_key) {
  if (!limit_bytes || !used_bytes) return std::nullopt;
  return *limit_bytes - *used_bytes + number_of_key(stat, inactive_key).value_or(0) +
         number_of_key(stat, active_key).value_or(0);
}

std::optional<std::int64_t> memory_room_v1(const std::string& folder) {
  return room(read_number(folder + "/memory.limit_in_bytes"),
              read_number(folder + "/memory.usage_in_bytes"),
              read_system_file(folder + "/memory.stat").value_or(""), "total_inactive_file",
              "total_active_file");
}

std::optional<std::int64_t> memory_room_v2(const std::string& folder) {
  std::optional<std::int64_t> limit_bytes = read_number(folder + "/memory.max");
  lower(limit_bytes, read_number(folder + "/memory.high"));
  return room(limit_bytes, read_number(folder + "/memory.current"),
              read_system_file(folder + "/memory.stat").value_or(""), "inactive_file",
              "active_file");
}

}  // namespace

ControlGroups::ControlGroups(const std::string& system_root)
    : cpu_(find_controller(system_root, "cpu")), memory_(find_controller(system_root, "memory")) {}

ControlGroups::Controller ControlGroups::find_controller(const std::string& system_root,
                                                         const std::string& name) {
  const Membership membership = read_membership(system_root, name);
  if (!membership.v1_path.empty()) {
    const auto mount = find_mount(system_root, "cgroup", name);
    if (!mount) return {};
    return {Version::v1, group_folders(system_root, *mount, membership.v1_path)};
  }
  const auto mount = find_mount(system_root, "cgroup2", "");
  if (!mount) return {};
  return {Version::v2, group_folders(system_root, *mount, membership.v2_path)};
}

std::optional<double> ControlGroups::cpu_quota() const {
  std::optional<double> least;
  for (const std::string& folder : cpu_.folders) {
    lower(least, cpu_.version == Version::v1 ? quota_v1(folder) : quota_v2(folder));
  }
  return least;
}

std::optional<std::int64_t> ControlGroups::memory_room_bytes() const {
  std::optional<std::int64_t> least;
  for (const std::string& folder : memory_.folders) {
    lower(least, memory_.version == Version::v1 ? memory_room_v1(folder) : memory_room_v2(folder));
  }
  return least;
}

}  // namespace strata
