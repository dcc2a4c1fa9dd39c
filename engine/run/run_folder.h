// RunFolder: the folder that --run names. It holds what the run was (options.json, plan.json,
// arithmetic.json), what it did (log.jsonl) and, without --nvme, its state.
//
//   created ──keep()──▶ kept        (destroyed before keep(): the folder is removed again)
//
// Only its own files and directories that are empty are ever removed.
// Rank 0 has one, made once everything else is validated, and keeps it at the first finished step,
// so that a run that fails before leaves nothing behind. It must outlive what writes into the
// folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError if `path` is used: anything but missing or an empty directory. Creates
// nothing.
void check_run_folder(const std::string& path);

class RunFolder {
 public:
  // Checks as check_run_folder() does and creates the directory, and missing parents. Throws
  // ConfigError or IoError.
  explicit RunFolder(std::string path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // options.json: every option of train with its value, readable as a --config file. Throws
  // IoError.
  void write_options(const Options& options);
  // plan.json, arithmetic.json. Throw IoError.
  void write_plan(std::string_view json);
  void write_arithmetic(std::string_view json);

  void keep() noexcept { kept_ = true; }

  const std::string& path() const { return path_; }
  std::string log_path() const;

 private:
  void write_file(const std::string& name, std::string_view text);

  void remove_what_is_ours() noexcept;

  std::string path_;
  std::vector<std::string> created_;  // directories, deepest first
  bool kept_ = false;
};

}  // namespace strata::engine
