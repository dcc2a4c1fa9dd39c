#include "engine/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "kernels/base/error.h"

namespace strata::engine {

InputFile::InputFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: a pipe without a writer is refused below, not waited for.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    throw_error<ConfigError>("cannot open the token file '{}': {}", path, std::strerror(errno));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw_error<ConfigError>("'{}' is {}; name files of tokens or text", path,
                             known && S_ISDIR(status.st_mode) ? "a directory" : "not a file");
  }
  identity_ = {status.st_dev, status.st_ino};
  bytes_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::int64_t offset, std::span<std::byte> destination) const {
  while (!destination.empty()) {
    const ssize_t got = ::pread(descriptor_, destination.data(), destination.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw_error<IoError>("read {} bytes at {} of '{}': {}", destination.size(), offset, path_,
                           got < 0 ? std::strerror(errno) : "the file has become shorter");
    }
    destination = destination.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

InputFiles::InputFiles(std::vector<Entry> entries)
    : entries_(std::move(entries)), slots_(std::min(entries_.size(), kOpenMax)) {}

void InputFiles::read(std::size_t file, std::int64_t offset,
                      std::span<std::byte> destination) const {
  Slot& slot = slots_[file % slots_.size()];
  {
    const std::shared_lock lock(slot.mutex);
    if (slot.holds(file)) return slot.open->read(offset, destination);
  }
  const std::unique_lock lock(slot.mutex);
  if (!slot.holds(file)) take(slot, file);
  slot.open->read(offset, destination);
}

void InputFiles::take(Slot& slot, std::size_t file) const {
  const Entry& entry = entries_[file];
  slot.open.reset();
  slot.open.emplace(entry.path);
  slot.file = file;
  if (slot.open->identity() != entry.identity) {
    slot.open.reset();
    throw_error<IoError>("open '{}': another file has taken its place since the run started",
                         entry.path);
  }
}

}  // namespace strata::engine
