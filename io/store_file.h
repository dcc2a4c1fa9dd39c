// Store files: the named files of a volume (io/volume.h), and how other processes look at them.
//
// Its lock (flock) tells a living store from a dead one: whoever made the file holds it as long as
// the process lives, and the system drops it however the process ends. A store file that nobody
// has locked is left over: its run ended or died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/direct_file.h"

namespace strata::io {

//   created (locked) ──keep()──▶ kept      (destroyed before: the file is deleted)
class StoreFile {
 public:
  // Makes directory/name, which must not exist yet, open for direct I/O, locked, and with its
  // blocks reserved; when that fails nothing is left behind. Without a name it is a scratch file,
  // which nobody else can see and nothing keeps. Throws ConfigError when the directory
  // cannot hold it, the file is there already (saying whether it is in use) or the disk is too
  // full; IoError when the system refuses something else.
  StoreFile(const std::string& directory, const std::string& name, std::int64_t bytes);
  StoreFile(StoreFile&& other) noexcept;
  StoreFile& operator=(StoreFile&&) = delete;
  ~StoreFile();

  void keep() noexcept { owned_ = false; }

  const DirectFile& file() const { return file_; }

 private:
  StoreFile(const std::string& directory, const std::string& name);

  DirectFile file_;
  bool owned_;  // to be deleted
};

// A store file that another process made, to be looked at and perhaps removed.
class FoundStoreFile {
 public:
  // Opens it for reading and tries to lock it. Throws IoError when it cannot be opened.
  explicit FoundStoreFile(std::string path);

  const std::string& path() const { return path_; }
  // A living process has it locked. Otherwise this object has, until it ends.
  bool in_use() const { return in_use_; }
  std::int64_t bytes() const;            // its length
  std::int64_t allocated_bytes() const;  // what removing it would free

  // Reads up to destination.size() bytes at `offset_bytes`, fewer only at the end of the file, and
  // returns how many. Throws IoError.
  std::int64_t read(std::int64_t offset_bytes, std::span<std::byte> destination) const;

  // Deletes the file. Not while it is in use. Throws IoError.
  void remove();

 private:
  std::string path_;
  FileDescriptor descriptor_;
  bool in_use_ = false;
};

}  // namespace strata::io
