// Volume files: the files of a volume (io/volume.h), and how other processes look at them.
//
// Its lock (flock) tells a living file from a dead one: whoever goes on in it holds it exclusively,
// whoever reads it shared, as long as the process lives, and the system drops it however the
// process ends. One that nobody has locked is left over: its run ended or died. It is locked before
// it has a name, so that nobody can mistake one in the making.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/direct_file.h"

namespace strata::io {

// exclusive: to go on in it; shared: to read it, as others may at the same time.
enum class VolumeAccess : std::uint8_t { shared, exclusive };

//   unpublished ──publish()──▶ published ──keep()──▶ kept ──remove()──▶ scratch
//                                          open() ───▲
//   (destroyed when published: the file is deleted; when unpublished, it never had a name)
class VolumeFile {
 public:
  // Makes the file that is to be directory/name, open for direct I/O, locked, and with its blocks
  // reserved; when that fails nothing is left behind. Without a name it is a scratch file, which
  // nobody else can see and nothing keeps. Where the file system has no nameless files, the name
  // is there at once. Throws ConfigError when the directory cannot hold it, the file is there
  // already (saying whether it is in use) or the disk is too full; IoError when the system refuses
  // something else.
  VolumeFile(const std::string& directory, const std::string& name, std::int64_t bytes);
  // One that is there already, open for direct I/O and locked; waits a second at most for processes
  // that only look at it. Throws ConfigError when a process has it locked, IoError when it cannot
  // be opened or is shorter than `bytes`.
  static VolumeFile open(const std::string& path, VolumeAccess access, std::int64_t bytes);
  VolumeFile(VolumeFile&& other) noexcept;
  VolumeFile& operator=(VolumeFile&&) = delete;
  // Waits for the deletion a second at most: on a drive that has stopped answering it goes on
  // alone.
  ~VolumeFile();

  // Gives the file its name, durably. Throws ConfigError when another has taken it meanwhile,
  // IoError.
  void publish();
  void keep() noexcept;

  // Turns an exclusive lock into a shared one. Throws ConfigError when another process has taken it
  // meanwhile, IoError.
  void share_lock();
  // Deletes the file, which stays open. Throws IoError.
  void remove();

  const DirectFile& file() const { return file_; }

 private:
  enum class State : std::uint8_t { scratch, unpublished, published, kept };

  VolumeFile(const std::string& directory, const std::string& name);
  VolumeFile(DirectFile file, State state);

  DirectFile file_;
  State state_;
};

// A volume file that another process made, to be looked at and perhaps removed. Several may look at
// once.
class FoundVolumeFile {
 public:
  // Opens it for reading and tries to lock it, shared. Throws IoError when it cannot be opened.
  explicit FoundVolumeFile(std::string path);

  const std::string& path() const { return path_; }
  // A living process goes on in it. Otherwise none can as long as this object lives.
  bool in_use() const { return in_use_; }
  std::int64_t allocated_bytes() const;  // what removing it would free

  // Reads up to destination.size() bytes at `offset_bytes`, fewer only at the end of the file, and
  // returns how many. Throws IoError.
  std::int64_t read(std::int64_t offset_bytes, std::span<std::byte> destination) const;

  // Deletes the file unless another process has. Throws ConfigError when one uses, reads or, for
  // longer than a second, looks at it, IoError.
  void remove();

 private:
  std::string path_;
  FileDescriptor descriptor_;
  bool in_use_ = false;
};

}  // namespace strata::io
