#include "io/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

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
