// PortableFolder: a folder that comes into being whole: filled under a temporary name beside its
// own, and given its name once everything in it is durable.
//
//   made (".NAME.strata-partial") ──publish()──▶ published
//        └──destroyed before──▶ nothing is left
//
// It holds a locked file meanwhile, so that what a killed process left is told from what a living
// one fills.
// Throws IoError naming the path.
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
  // Also where another rank made the temporary folder already. Throws ConfigError when another
  // process fills it.
  explicit PortableFolder(std::string path);
  ~PortableFolder();
  PortableFolder(const PortableFolder&) = delete;
  PortableFolder& operator=(const PortableFolder&) = delete;

  static std::string temporary_path(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }

  // Throws ConfigError when there is such a folder and it is not to be replaced.
  void publish(ExistingFolder existing);

 private:
  std::string path_;
  std::string temporary_path_;
  io::FileDescriptor lock_;
  bool published_ = false;
};

// The absolute path of a folder that somebody named, perhaps with a slash at its end.
std::string folder_path(const std::string& named);

// Removes temporary folders in `directory` that nobody fills any more.
void remove_partial_folders(const std::string& directory);

// "step-00000050": the folder of a step's portable checkpoint.
std::string step_folder_name(std::int64_t step);
// Of the folders of steps in `directory`, removes those written first until `keep` are left.
void keep_newest_steps(const std::string& directory, std::int64_t keep);

}  // namespace strata::engine
