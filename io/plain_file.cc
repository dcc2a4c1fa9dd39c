#include "io/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

[[noreturn]] void throw_refused(std::string_view operation, const std::string& path) {
  throw_error<IoError>("{} {}: {}", operation, path, errno_text(errno));
}

void require_regular(std::string_view operation, const std::string& path,
                     const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  throw_error<IoError>("{} {}: {}", operation, path,
                       S_ISDIR(status.st_mode) ? errno_text(EISDIR) : "it is no regular file");
}

// The file that a replacement of `path` puts in place: where links lead. What is there and is no
// regular file, a device say, must not give way to one.
std::string target_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    require_regular("replace", path, status);
    return std::filesystem::canonical(path).string();
  }
  if (::lstat(path.c_str(), &status) == 0) throw_refused("follow the link", path);
  return path;
}

// Not open, with errno, where that fails. Never opens what is there, a pipe say.
FileDescriptor create_anew(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno == EISDIR) throw_refused("remove", path);
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

}  // namespace

FileDescriptor open_plain_file(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno != ENOENT && errno != ENOTDIR) throw_refused("open", path);
    return file;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_refused("look at", path);
  require_regular("read", path, status);
  return file;
}

std::optional<std::string> read_file(const std::string& path) {
  const FileDescriptor file = open_plain_file(path);
  if (!file.is_open()) return std::nullopt;
  std::string text;
  std::array<char, 16 << 10> piece;
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_refused("read", path);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

void write_fully(int descriptor, std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_error<IoError>("write {} bytes to {}: {}", text.size(), name, errno_text(errno));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

FileReplacement::FileReplacement(std::string path)
    : path_(std::move(path)),
      target_(target_of(path_)),
      unfinished_path_(target_ + std::string(kUnfinishedSuffix)),
      file_(create_anew(unfinished_path_)) {
  if (!file_.is_open()) throw_refused("create", path_);
}

FileReplacement::~FileReplacement() {
  if (!unfinished_path_.empty()) ::unlink(unfinished_path_.c_str());
}

void FileReplacement::write(std::string_view text) { write_fully(file_.get(), text, path_); }

void FileReplacement::finish() {
  if (::fsync(file_.get()) != 0) throw_refused("flush", path_);
  if (::rename(unfinished_path_.c_str(), target_.c_str()) != 0) throw_refused("replace", path_);
  unfinished_path_.clear();
  const std::string directory = std::filesystem::path(target_).parent_path().string();
  flush_directory(directory.empty() ? "." : directory);
}

void replace_file(const std::string& path, std::string_view text) {
  FileReplacement file(path);
  file.write(text);
  file.finish();
}

void flush_directory(const std::string& directory) {
  const FileDescriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open() || ::fsync(descriptor.get()) != 0) {
    throw_refused("flush directory", directory);
  }
}

}  // namespace strata::io
