#include "engine/portable/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartialSuffix = ".strata-partial";
constexpr const char* kLockFile = "/.lock";

[[noreturn]] void fail(const char* operation, const std::string& path) {
  throw_error<IoError>("{} {}: {}", operation, path, std::strerror(errno));
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

io::FileDescriptor lock_file(const std::string& folder, int flags) {
  return io::FileDescriptor(::open((folder + kLockFile).c_str(), flags | O_CLOEXEC, 0666));
}

bool is_locked_by_another(const io::FileDescriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_deleted(const io::FileDescriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
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

// Makes a folder with a locked file in it. Not open: somebody who tidied up took it for abandoned.
io::FileDescriptor make_locked(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) fail("make the folder", folder);
  io::FileDescriptor file = lock_file(folder, O_RDWR | O_CREAT);
  if (!file.is_open() && errno != ENOENT) fail("open a file in", folder);
  if (file.is_open() && (is_locked_by_another(file) || is_deleted(file))) return {};
  return file;
}

// One that is being made is empty until its lock is there, and whoever makes it makes another one
// if it goes; an abandoned one has a lock that nobody holds, or was being deleted.
void remove_if_abandoned(const std::string& folder) {
  if (::rmdir(folder.c_str()) == 0) return;
  const io::FileDescriptor file = lock_file(folder, O_RDWR);
  if (file.is_open() ? is_locked_by_another(file) : errno != ENOENT) return;
  std::error_code ignored;  // another user's stays
  fs::remove_all(folder, ignored);
}

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

// Gives `from` the name of the folder `to`; returns where that one is now.
std::string take_place(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return from;
  if (errno != EINVAL && errno != ENOSYS) fail(("swap " + from + " and").c_str(), to);
  const std::string old = to + ".old";
  remove_tree(old);  // of a crash right here, long since replaced
  rename_or_fail(to, old);
  rename_or_fail(from, to);
  return old;
}

}  // namespace

PortableFolder::PortableFolder(std::string path) : path_(std::move(path)) {
  make_folder(parent_of(path_));
  while (!lock_.is_open()) {
    number_ = random_number();
    temporary_path_ = temporary_path(path_, number_);
    lock_ = make_locked(temporary_path_);
  }
}

PortableFolder::~PortableFolder() {
  if (published_) return;
  std::error_code ignored;  // the failure that led here is the one to tell
  fs::remove_all(temporary_path_, ignored);
}

std::string PortableFolder::temporary_path(const std::string& path, std::uint64_t number) {
  const fs::path named(path);
  return named.parent_path() /
         fmt::format(".{}.{:016x}{}", named.filename().string(), number, kPartialSuffix);
}

void PortableFolder::publish(ExistingFolder existing) {
  io::flush_directory(temporary_path_);
  std::string replaced;
  if (!fs::exists(path_)) {
    rename_or_fail(temporary_path_, path_);
  } else if (existing == ExistingFolder::replace) {
    replaced = take_place(temporary_path_, path_);
  } else {
    throw_error<ConfigError>("{} exists already; choose another folder", path_);
  }
  published_ = true;
  io::flush_directory(parent_of(path_));
  if (::unlink((path_ + kLockFile).c_str()) != 0) fail("remove a file of", path_);
  io::flush_directory(path_);
  std::error_code ignored;  // what remains of it is as a killed process leaves it
  if (!replaced.empty()) fs::remove_all(replaced, ignored);
}

std::string folder_path(const std::string& named) {
  const fs::path path = fs::absolute(named).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void remove_folder(const std::string& path) {
  const std::string partial = PortableFolder::temporary_path(path, random_number());
  rename_or_fail(path, partial);
  remove_tree(partial);
}

void remove_partial_folders(const std::string& directory) {
  if (!fs::is_directory(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    const bool is_partial = name.starts_with('.') && name.ends_with(kPartialSuffix);
    if (is_partial && entry.is_directory()) remove_if_abandoned(entry.path());
  }
}

}  // namespace strata::engine
