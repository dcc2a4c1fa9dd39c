// TextFile: a file that gets whole lines, each with one write and no buffer of its own, so that a
// reader (tail -f, scripts/log_export.py --follow) sees every line at once and a killed run loses
// none.
#pragma once

#include <string>
#include <string_view>

#include "io/plain_file.h"

namespace strata::engine {

// Throws IoError if `path` could not be opened for writing, for files that are written at the end
// of a run. Creates nothing.
void check_writable(const std::string& path);

// Move-only owner of an open file.
class TextFile {
 public:
  // Opens for appending, creating the file if need be. Throws IoError.
  explicit TextFile(std::string path);
  TextFile(TextFile&& other) noexcept;
  TextFile& operator=(TextFile&&) = delete;
  ~TextFile();

  void write(std::string_view text) { io::write_fully(descriptor_, text, path_); }
  // Afterwards every line so far survives a crash of the machine. Throws IoError.
  void sync();

  const std::string& path() const { return path_; }
  bool created() const { return created_; }  // by this object

 private:
  std::string path_;
  int descriptor_ = -1;
  bool created_ = false;
};

}  // namespace strata::engine
