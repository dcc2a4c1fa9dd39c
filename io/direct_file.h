// DirectFile: a file open for direct I/O (no page cache); and what every directory that is to hold
// one is asked.
#pragma once

#include <cstdint>
#include <string>

#include "io/file_descriptor.h"

namespace strata::io {

class DirectFile {
 public:
  // `descriptor` was opened with O_DIRECT; `path` is for people. Throws ConfigError when direct I/O
  // there needs a larger alignment than a page.
  DirectFile(FileDescriptor descriptor, std::string directory, std::string path);

  int descriptor() const { return descriptor_.get(); }
  const std::string& directory() const { return directory_; }
  const std::string& path() const { return path_; }
  // What direct I/O on this file asks of offsets, lengths and addresses.
  std::int64_t alignment_bytes() const { return alignment_bytes_; }

 private:
  FileDescriptor descriptor_;
  std::string directory_;
  std::string path_;
  std::int64_t alignment_bytes_;
};

// Opens `path` with O_CLOEXEC and, when it creates, for the owner only. Returns a closed descriptor
// with errno set when the system refuses.
FileDescriptor open_file(const std::string& path, int flags);

// Throws ConfigError when it is missing or not a directory.
void check_is_directory(const std::string& directory);

// Throws what a refusal to create a file there means: ConfigError, or IoError for what no change
// of options can help.
[[noreturn]] void throw_directory_refused(const std::string& directory, int error_number);

}  // namespace strata::io
