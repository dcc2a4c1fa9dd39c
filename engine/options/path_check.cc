#include "engine/options/path_check.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// So that a message stays a line.
std::string shortened(const std::string& path) {
  constexpr std::size_t kShown = 80;
  return path.size() <= kShown ? path : path.substr(0, kShown) + "...";
}

}  // namespace

void check_path(const std::string& path, OptionPaths kind) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (kind != OptionPaths::file || !S_ISDIR(status.st_mode)) return;
    throw_error<ConfigError>("{} is a folder; give a file", path);
  }
  if (errno != ENAMETOOLONG && errno != ELOOP) return;
  throw_error<ConfigError>("{}: {}; give another path", shortened(path), std::strerror(errno));
}

void check_paths(const OptionSpec& option, std::string_view text) {
  for (const std::string_view path : paths_in(option, text)) {
    check_path(std::string(path), option.paths);
  }
}

}  // namespace strata::engine
