// PortableFolder: a folder that comes into being whole: filled under a temporary name beside its
// own, and given its name once everything in it is durable.
//
//   made (".NAME.NUMBER.strata-partial") ──publish()──▶ published
//        └──destroyed before──▶ nothing is left
//
// It holds a locked file until it has its name, so that what a killed process left is told from
// what a living one fills. No temporary name is used twice.
// Throws IoError naming the path. Thread contract: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/file_descriptor.h"

namespace strata::engine {

// What publish() does with a folder that has the name already.
enum class ExistingFolder : std::uint8_t { refuse, replace };

class PortableFolder {
 public:
  explicit PortableFolder(std::string path);
  ~PortableFolder();
  PortableFolder(const PortableFolder&) = delete;
  PortableFolder& operator=(const PortableFolder&) = delete;

  static std::string temporary_path(const std::string& path, std::uint64_t number);

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }
  // Random and not 0: tells this folder from others that are to have the same name.
  std::uint64_t number() const { return number_; }

  // At any moment the name has the old folder or the new one, or, on file systems that cannot swap
  // two, the old one is at "NAME.old". Throws ConfigError when there is such a folder and it is not
  // to be replaced.
  void publish(ExistingFolder existing);

 private:
  std::string path_;
  std::string temporary_path_;
  std::uint64_t number_ = 0;
  io::FileDescriptor lock_;
  bool published_ = false;
};

// The absolute path of a folder that somebody named, perhaps with a slash at its end.
std::string folder_path(const std::string& named);

// Deletes a folder: first its name goes, so that no half of it is ever found under it.
void remove_folder(const std::string& path);

// Removes temporary folders in `directory` that nobody fills any more.
void remove_partial_folders(const std::string& directory);

}  // namespace strata::engine
