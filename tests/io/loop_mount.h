// A small ext4 on a loop device, for what a real drive does only on a bad day: full, read-only,
// stuck, EIO. Needs the right to mount (root outside most containers); tests skip where mounted()
// is false.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace strata::io {

class LoopMount {
 public:
  explicit LoopMount(std::int64_t bytes, int sector_bytes = 512)
      : root_(testing::TempDir() + "/strata-loop-XXXXXX") {
    if (mkdtemp(root_.data()) == nullptr) return;
    std::filesystem::create_directory(directory());
    std::FILE* image = std::fopen(image_path().c_str(), "w");
    if (image == nullptr) return;
    std::fclose(image);
    std::filesystem::resize_file(image_path(), static_cast<std::uintmax_t>(bytes));
    device_ = first_line(fmt::format("losetup --sector-size {} --find --show {} 2>/dev/null",
                                     sector_bytes, image_path()));
    if (device_.empty()) return;
    mounted_ = run(fmt::format("mkfs.ext4 -q -b 4096 -O ^has_journal {}", device_)) &&
               mount(device_.c_str(), directory().c_str(), "ext4", 0, nullptr) == 0;
  }
  ~LoopMount() {
    if (mounted_) umount2(directory().c_str(), MNT_DETACH);
    if (!device_.empty()) run(fmt::format("losetup --detach {}", device_));
    std::filesystem::remove_all(root_);
  }
  LoopMount(const LoopMount&) = delete;
  LoopMount& operator=(const LoopMount&) = delete;

  bool mounted() const { return mounted_; }
  std::string directory() const { return root_ + "/mount"; }

  bool make_read_only() {
    return mount(device_.c_str(), directory().c_str(), "ext4", MS_REMOUNT | MS_RDONLY, nullptr) ==
           0;
  }
  // Writes block until thaw().
  bool freeze() { return freezer(FIFREEZE); }
  bool thaw() { return freezer(FITHAW); }

  // Every access to the device's blocks is an EIO from now on.
  void lose_the_device() { std::filesystem::resize_file(image_path(), 0); }

 private:
  std::string image_path() const { return root_ + "/image"; }

  bool freezer(unsigned long request) {
    const int descriptor = open(directory().c_str(), O_RDONLY | O_CLOEXEC);
    const bool done = ioctl(descriptor, request, 0) == 0;
    close(descriptor);
    return done;
  }
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  static std::string first_line(const std::string& command) {
    std::FILE* output = popen(command.c_str(), "r");
    if (output == nullptr) return "";
    char line[256] = "";
    if (std::fgets(line, sizeof line, output) == nullptr) line[0] = '\0';
    pclose(output);
    std::string text = line;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  std::string root_;
  std::string device_;
  bool mounted_ = false;
};

}  // namespace strata::io
