// What the control groups of this process, version 1 or 2, leave it of the machine.
//
// A limit may stand at the process's own group or at any group above it that is visible: the
// smallest counts. Groups that cannot be read limit nothing. Sources: the kernel's
// Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata {

class ControlGroups {
 public:
  // `system_root` stands before /proc and before mount points: "" for this machine.
  explicit ControlGroups(const std::string& system_root = "");

  // Processors' worth of time per period (1.5, say).
  std::optional<double> cpu_quota() const;

  // Bytes until the limit; file pages count as free, since the kernel drops them first. May be
  // negative. (v1: limit_in_bytes; v2: the smaller of max and high.)
  std::optional<std::int64_t> memory_room_bytes() const;

 private:
  enum class Version { v1, v2 };
  struct Controller {
    Version version = Version::v2;
    std::vector<std::string> folders;  // the process's group first, then those above it
  };
  static Controller find_controller(const std::string& system_root, const std::string& name);

  Controller cpu_;
  Controller memory_;
};

}  // namespace strata
