// Small files beside the store's: read whole, written through the page cache, and durable where
// that is said. Thread contract: any thread; nobody else may replace the same file meanwhile.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/file_descriptor.h"

namespace strata::io {

// To read; not open, with errno, if there is none. Throws IoError for what cannot be opened or is
// no regular file: a pipe is not waited for.
FileDescriptor open_plain_file(const std::string& path);

// The whole file; nothing if there is none. Throws IoError when it is there and cannot be read.
std::optional<std::string> read_file(const std::string& path);

// Writes all of `text` to a descriptor; allocates nothing. Throws IoError naming `name`.
void write_fully(int descriptor, std::string_view text, std::string_view name);

// The new content of a file, written under another name until it is complete:
//
//   begun ──write()…──▶ begun ──finish()──▶ in place, durably        (destroyed before: removed)
//
// After a crash at any moment the file is there as it was before, or complete; and perhaps
// PATH.new, which the next replacement removes. Links are followed; what is there and is no regular
// file is refused.
class FileReplacement {
 public:
  // Throws IoError, as the others do.
  explicit FileReplacement(std::string path);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  std::string path_;
  std::string target_;           // where links at path_ lead
  std::string unfinished_path_;  // empty: in place
  FileDescriptor file_;
};

// A replacement by `text`. Throws IoError.
void replace_file(const std::string& path, std::string_view text);

// Makes the names in a directory durable: a flush of a file need not. Throws IoError.
void flush_directory(const std::string& directory);

// What a replacement adds to the name until it is complete.
inline constexpr std::string_view kUnfinishedSuffix = ".new";

}  // namespace strata::io
