#include "engine/checkpoint/portable_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/checkpoint/portable_index.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartialSuffix = ".strata-partial";
constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kLockFile = ".lock";

[[noreturn]] void fail(const char* operation, const std::string& path) {
  throw_error<IoError>("{} {}: {}", operation, path, std::strerror(errno));
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

io::FileDescriptor lock_file(const std::string& folder, int flags) {
  return io::FileDescriptor(::open((folder + "/" + kLockFile).c_str(), flags | O_CLOEXEC, 0666));
}

bool is_locked_by_another(const io::FileDescriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void rename_or_fail(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(("rename " + from + " to").c_str(), to);
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_error<IoError>("remove {}: {}", path, error.message());
}

void make_folder(const std::string& path) {
  if (fs::exists(path)) return;
  make_folder(parent_of(path));
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail("make the folder", path);
  io::flush_directory(parent_of(path));
}

}  // namespace

PortableFolder::PortableFolder(std::string path)
    : path_(std::move(path)), temporary_path_(temporary_path(path_)) {
  make_folder(temporary_path_);
  lock_ = lock_file(temporary_path_, O_RDWR | O_CREAT);
  if (!lock_.is_open()) fail("open a file in", temporary_path_);
  if (is_locked_by_another(lock_)) {
    throw_error<ConfigError>("another process writes {}; wait for it, or choose another folder",
                             path_);
  }
}

PortableFolder::~PortableFolder() {
  if (published_) return;
  std::error_code ignored;  // the failure that led here is the one to tell
  fs::remove_all(temporary_path_, ignored);
}

std::string PortableFolder::temporary_path(const std::string& path) {
  const fs::path named(path);
  return named.parent_path() / fmt::format(".{}{}", named.filename().string(), kPartialSuffix);
}

void PortableFolder::publish(ExistingFolder existing) {
  if (::unlink((temporary_path_ + "/" + kLockFile).c_str()) != 0) fail("remove a file of", path_);
  io::flush_directory(temporary_path_);
  std::string replaced;
  if (fs::exists(path_)) {
    if (existing == ExistingFolder::refuse) {
      throw_error<ConfigError>("{} exists already; choose another folder", path_);
    }
    replaced = temporary_path(path_ + ".old");
    rename_or_fail(path_, replaced);
  }
  rename_or_fail(temporary_path_, path_);
  published_ = true;
  io::flush_directory(parent_of(path_));
  if (!replaced.empty()) remove_tree(replaced);
}

std::string folder_path(const std::string& named) {
  const fs::path path = fs::absolute(named).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void remove_partial_folders(const std::string& directory) {
  if (!fs::is_directory(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    const bool is_partial = name.starts_with('.') && name.ends_with(kPartialSuffix);
    if (!is_partial || !entry.is_directory()) continue;
    const io::FileDescriptor file = lock_file(entry.path(), O_RDWR);
    if (!file.is_open() || !is_locked_by_another(file)) remove_tree(entry.path());
  }
}

std::string step_folder_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

void keep_newest_steps(const std::string& directory, std::int64_t keep) {
  std::vector<std::pair<fs::file_time_type, std::string>> folders;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path index = entry.path() / kPortableIndexFile;
    if (!entry.path().filename().string().starts_with(kStepPrefix) || !fs::exists(index)) continue;
    folders.emplace_back(fs::last_write_time(index), entry.path());
  }
  std::ranges::sort(folders);
  const std::int64_t surplus = std::ssize(folders) - keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    // First the name goes, so that no half of one is ever found under it.
    const std::string& path = folders[static_cast<std::size_t>(i)].second;
    const std::string partial = PortableFolder::temporary_path(path);
    rename_or_fail(path, partial);
    remove_tree(partial);
  }
}

}  // namespace strata::engine
