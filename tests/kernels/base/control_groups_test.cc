#include "kernels/base/control_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/system_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// A folder that stands for "/": the files of /proc and of the groups as the kernel would show them.
class ControlGroupsTest : public testing::Test {
 protected:
  ControlGroupsTest()
      : root_(fs::path(testing::TempDir()) / ("strata_groups_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~ControlGroupsTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ControlGroups groups() const { return ControlGroups(root_.string()); }

 private:
  fs::path root_;
};

TEST_F(ControlGroupsTest, Version2TakesTheTightestGroupAbove) {
  write("/proc/self/cgroup", "0::/user.slice/job\n");
  write("/proc/self/mountinfo",
        "25 20 0:22 / /sys rw shared:7 - sysfs sysfs rw\n"
        "31 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  write("/sys/fs/cgroup/user.slice/job/memory.high", "8000\n");
  write("/sys/fs/cgroup/user.slice/job/memory.current", "5000\n");
  write("/sys/fs/cgroup/user.slice/job/memory.stat",
        "anon 1700\nfile 3300\ninactive_anon 9\nactive_anon 9\ninactive_file 2000\nactive_file "
        "1000\n");
  write("/sys/fs/cgroup/user.slice/memory.max", "100000\n");
  write("/sys/fs/cgroup/user.slice/memory.current", "7000\n");
  EXPECT_DOUBLE_EQ(groups().cpu_quota().value(), 2.5);
  EXPECT_EQ(groups().memory_room_bytes().value(), 8000 - 5000 + 2000 + 1000);
}

TEST_F(ControlGroupsTest, Version1FindsEachControllersHierarchy) {
  write("/proc/self/cgroup", "5:memory:/job\n3:cpuset:/\n2:cpu,cpuacct:/job/step\n0::/\n");
  write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "10000\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "9000\n");
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 300\ntotal_active_file 20\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
  EXPECT_DOUBLE_EQ(groups().cpu_quota().value(), 1.5);
  EXPECT_EQ(groups().memory_room_bytes().value(), 10000 - 9000 + 320);
}

TEST_F(ControlGroupsTest, AContainersMountStandsForItsOwnGroup) {
  write("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  write("/proc/self/mountinfo",
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "400\n");
  write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "500\n");
  write("/sys/fs/cgroup/memory/inner/memory.usage_in_bytes", "100\n");
  EXPECT_EQ(groups().memory_room_bytes().value(), 400);
}

TEST_F(ControlGroupsTest, NoGroupsLimitNothing) {
  EXPECT_FALSE(groups().cpu_quota());
  EXPECT_FALSE(groups().memory_room_bytes());
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "31 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_FALSE(groups().cpu_quota()) << "the root group of version 2 has no limit files";
  EXPECT_FALSE(groups().memory_room_bytes());
}

TEST(SystemFile, FindsNumbersByWholeKeys) {
  EXPECT_EQ(number_of_key("VmHWM:\t  12 kB\nVmRSS:\t   7 kB\n", "VmRSS:"), 7);
  EXPECT_EQ(number_of_key("active_file_more 3\nactive_file 4", "active_file"), 4);
  EXPECT_FALSE(number_of_key("active_file", "active_file"));
  EXPECT_FALSE(number_of_key("", "x"));
  EXPECT_FALSE(read_system_file("/no/such/file"));
}

}  // namespace
}  // namespace strata
