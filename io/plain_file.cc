#include "io/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "io/file_descriptor.h"
#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

[[noreturn]] void throw_refused(std::string_view operation, const std::string& path) {
  throw_error<IoError>("{} {}: {}", operation, path, errno_text(errno));
}

void write_durably(const std::string& path, std::string_view text) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) throw_refused("create", path);
  write_fully(file.get(), text, path);
  if (::fsync(file.get()) != 0) throw_refused("flush", path);
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

void replace_file(const std::string& path, std::string_view text) {
  const std::string unfinished = path + std::string(kUnfinishedSuffix);
  try {
    write_durably(unfinished, text);
    if (::rename(unfinished.c_str(), path.c_str()) != 0) throw_refused("replace", path);
  } catch (...) {
    ::unlink(unfinished.c_str());
    throw;
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  flush_directory(directory.empty() ? "." : directory);
}

void flush_directory(const std::string& directory) {
  const FileDescriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open() || ::fsync(descriptor.get()) != 0) {
    throw_refused("flush directory", directory);
  }
}

}  // namespace strata::io
