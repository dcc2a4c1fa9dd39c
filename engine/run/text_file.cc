#include "engine/run/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kernels/base/error.h"

namespace strata::engine {

void check_writable(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  int error = 0;
  if (::access(path.c_str(), F_OK) != 0) {
    if (::access((parent / ".").c_str(), W_OK | X_OK) != 0) error = errno;
  } else if (std::filesystem::is_directory(path)) {
    error = EISDIR;
  } else if (::access(path.c_str(), W_OK) != 0) {
    error = errno;
  }
  if (error == 0) return;
  throw_error<IoError>("open {} for writing: {}; give a file in a folder that can be written", path,
                       std::strerror(error));
}

TextFile::TextFile(std::string path) : path_(std::move(path)) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), kFlags | O_EXCL, 0666);
  created_ = descriptor_ >= 0;
  if (!created_ && errno == EEXIST) descriptor_ = ::open(path_.c_str(), kFlags, 0666);
  if (descriptor_ < 0) throw_error<IoError>("open {} for writing: {}", path_, std::strerror(errno));
}

TextFile::TextFile(TextFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      created_(std::exchange(other.created_, false)) {}

void TextFile::sync() {
  // Not of a pipe or a terminal.
  if (::fdatasync(descriptor_) == 0 || errno == EINVAL || errno == EROFS) return;
  throw_error<IoError>("flush {}: {}", path_, std::strerror(errno));
}

TextFile::~TextFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace strata::engine
