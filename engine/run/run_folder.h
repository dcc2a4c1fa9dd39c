// RunFolder: the folder that --run names. It holds what the run was asked for (options.json), what
// it is (data.json, plan.json, arithmetic.json, store.json), of a pretrained model the small files
// (model/), what it did (log.jsonl) and, without --nvme, its state.
//
//   new ───────keep()──▶ kept        (destroyed before keep(): its files are removed again)
//   gone on with: kept from the start
//
// It is locked by this process while the object lives (run_lock.h). Only its own files and
// directories that are empty are ever removed. Every file is replaced whole and durably. Rank 0 has
// one, made once everything else is validated, and keeps it at the first finished step, so that a
// run that fails before leaves nothing behind. It must outlive what writes into the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/run_lock.h"
#include "engine/options/options.h"
#include "engine/plan/model_source.h"

namespace strata::engine {

enum class FolderUse : std::uint8_t {
  begin,  // of a folder that is missing or empty
  go_on,  // with the run in it; begins one where there is none
};
FolderUse folder_use(const Options& options);  // --resume

// Throws ConfigError if `path` cannot be used so. Creates nothing.
void check_run_folder(const std::string& path, FolderUse use);

class RunFolder {
 public:
  // Checks as check_run_folder() does, creates the directory and missing parents, durably, and
  // locks it. Throws ConfigError, also when another process has locked it, or IoError.
  RunFolder(std::string path, FolderUse use);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Whether there is a run in it to go on with.
  bool has_run() const { return has_run_; }

  // options.json (run_options.h), data.json, plan.json, arithmetic.json. Throw IoError.
  void write_options(const Options& options);
  void write_data(std::string_view json);
  void write_plan(std::string_view json);
  void write_arithmetic(std::string_view json);
  // Keeps them for later, unless it has them (engine/plan/model_source.h). Throws IoError.
  void write_model(const ModelFiles& files);
  // See log_cut.h; the run's log and profile are not open yet.
  void cut_log(std::int64_t step, std::optional<double> validation_loss = std::nullopt);

  void keep() noexcept { kept_ = true; }

  const std::string& path() const { return path_; }
  std::string log_path() const;

 private:
  void create_directories();
  std::string path_of(std::string_view name) const;
  void remove_files() noexcept;
  void remove_directories() noexcept;

  std::string path_;
  std::vector<std::string> created_;  // directories, deepest first
  std::optional<RunLock> lock_;
  bool has_run_ = false;
  bool kept_ = false;
};

}  // namespace strata::engine
