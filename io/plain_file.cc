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

}  // namespace

FileDescriptor open_plain_file(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno != ENOENT && errno != ENOTDIR) throw_refused("open", path);
    return file;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_refused("look at", path);
  if (!S_ISREG(status.st_mode)) {
    throw_error<IoError>("read {}: {}", path,
                         S_ISDIR(status.st_mode) ? errno_text(EISDIR) : "it is no regular file");
  }
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
      unfinished_path_(path_ + std::string(kUnfinishedSuffix)),
      file_(::open(unfinished_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!file_.is_open()) throw_refused("create", unfinished_path_);
}

FileReplacement::~FileReplacement() {
  if (!unfinished_path_.empty()) ::unlink(unfinished_path_.c_str());
}

void FileReplacement::write(std::string_view text) {
  write_fully(file_.get(), text, unfinished_path_);
}

void FileReplacement::finish() {
  if (::fsync(file_.get()) != 0) throw_refused("flush", unfinished_path_);
  if (::rename(unfinished_path_.c_str(), path_.c_str()) != 0) throw_refused("replace", path_);
  unfinished_path_.clear();
  const std::string directory = std::filesystem::path(path_).parent_path().string();
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
