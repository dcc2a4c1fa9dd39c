// ScratchFile: a file without a name, opened O_DIRECT, with its blocks preallocated.
//
// It never shows up in its directory where the file system has O_TMPFILE, and is unlinked at once
// where it has not; either way it is gone when the last descriptor is, however the process ends.
#pragma once

#include <cstdint>
#include <string>

namespace strata::io {

class ScratchFile {
 public:
  // No blocks yet. Throws ConfigError when `directory` cannot hold such a file.
  explicit ScratchFile(const std::string& directory);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) = delete;
  ~ScratchFile();

  // Throws ConfigError, with both numbers, when less than `bytes` are free for this user.
  void check_free(std::int64_t bytes) const;

  // Throws ConfigError when that space is not there or the file system cannot preallocate, IoError
  // when the system refuses something else.
  void preallocate(std::int64_t bytes);

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }  // for people
  // What direct I/O on this file asks of offsets, lengths and addresses.
  std::int64_t alignment_bytes() const { return alignment_bytes_; }
  std::int64_t free_bytes() const;  // of its file system, for this user

 private:
  std::string directory_;
  std::string path_;
  int descriptor_ = -1;
  std::int64_t alignment_bytes_ = 0;
};

}  // namespace strata::io
