// A control group (version 1 or 2) that limits the memory of the processes in it. Needs the right
// to make one; tests skip where made() is false.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace strata::test {

class MemoryGroup {
 public:
  explicit MemoryGroup(std::int64_t limit_bytes) {
    struct Version {
      const char* root;
      const char* limit_file;
    };
    for (const auto& [root, limit_file] : {Version{"/sys/fs/cgroup", "memory.max"},
                                           {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}}) {
      folder_ = fmt::format("{}/strata-test-{}", root, ::getpid());
      std::error_code refused;
      if (!std::filesystem::create_directory(folder_, refused)) continue;
      std::ofstream file(folder_ + "/" + limit_file, std::ios::in);  // in: never creates it
      made_ = static_cast<bool>(file << limit_bytes << std::flush);
      if (made_) return;
      ::rmdir(folder_.c_str());
    }
  }
  ~MemoryGroup() {
    if (made_) ::rmdir(folder_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return made_; }
  // A process joins by writing its id here.
  std::string processes_file() const { return folder_ + "/cgroup.procs"; }

 private:
  std::string folder_;
  bool made_ = false;
};

}  // namespace strata::test
