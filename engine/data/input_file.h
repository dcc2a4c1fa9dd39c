// Files that are read: one descriptor, and a set of any number of files behind few descriptors.
//
// Thread contract: reads may come from any thread, at once; they allocate nothing.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

namespace strata::engine {

// The same file whatever it is called.
struct FileIdentity {
  dev_t device;
  ino_t inode;
  auto operator<=>(const FileIdentity&) const = default;
};

// A regular file, opened for reading.
class InputFile {
 public:
  // Throws ConfigError. `path` outlives the object.
  explicit InputFile(const std::string& path);
  explicit InputFile(std::string&& path) = delete;
  InputFile(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  FileIdentity identity() const { return identity_; }
  std::int64_t bytes() const { return bytes_; }

  // Throws IoError; the end of the file is one.
  void read(std::int64_t offset, std::span<std::byte> destination) const;

 private:
  const std::string& path_;
  int descriptor_;
  FileIdentity identity_;
  std::int64_t bytes_;
};

// Files that are opened at use. File i has slot i mod kOpenMax for its descriptor, which it takes
// from whichever file had the slot; so no more than kOpenMax are open at a time.
class InputFiles {
 public:
  static constexpr std::size_t kOpenMax = 64;

  struct Entry {
    std::string path;
    FileIdentity identity;
  };

  explicit InputFiles(std::vector<Entry> entries);

  // `entry` of each.
  template <typename File>
  static std::vector<Entry> entries_of(const std::vector<File>& files) {
    std::vector<Entry> entries;
    for (const File& file : files) entries.push_back(file.entry);
    return entries;
  }

  const std::string& path(std::size_t file) const { return entries_[file].path; }

  // Throws IoError, also when another file lies there now, or ConfigError when it cannot be opened.
  void read(std::size_t file, std::int64_t offset, std::span<std::byte> destination) const;

 private:
  struct Slot {
    std::shared_mutex mutex;  // shared: reads of `open`; exclusive: another file takes the slot
    std::size_t file = 0;
    std::optional<InputFile> open;

    bool holds(std::size_t wanted) const { return open.has_value() && file == wanted; }
  };
  void take(Slot& slot, std::size_t file) const;

  std::vector<Entry> entries_;
  mutable std::vector<Slot> slots_;
};

}  // namespace strata::engine
