// The project's source files as text, for tests of the structure and style of all of them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace strata::style {

struct SourceFile {
  std::string path;  // from the root of the source tree, "io/engine.h"
  std::vector<std::string> lines;

  bool is_header() const { return path.ends_with(".h"); }
};

inline const std::filesystem::path& source_root() {
  static const std::filesystem::path root = STRATA_SOURCE_DIR;
  return root;
}

// The .h, .cc and .cu files under these folders, sorted by path.
inline std::vector<SourceFile> source_files(const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_root() / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      SourceFile file{std::filesystem::relative(entry.path(), source_root()), {}};
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

// The path between the quotes of a line #include "path"; "" for any other line.
inline std::string quoted_include(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  if (!line.starts_with(kStart)) return "";
  line.remove_prefix(kStart.size());
  return std::string(line.substr(0, line.find('"')));
}

}  // namespace strata::style
