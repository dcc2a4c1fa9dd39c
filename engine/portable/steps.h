// Folders of steps, in one folder: portable checkpoints, step-00000050, and model snapshots beside
// the folder of --export, NAME-step-00000050; and whose they are.
// strata.json names the folder of the run; what is of another run is neither replaced nor deleted.
// Throws IoError naming the path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::engine {

// How strata.json names the run of a folder: by its path, without links; in a model, which is for
// others, by a checksum of that.
std::string run_name(const std::string& run_folder);
std::string run_mark(const std::string& run_name);

// Whether `folder` is a portable checkpoint, or a model, of the run of that name.
bool is_of_run(const std::string& folder, const std::string& run);

// What the names of a run's folders of steps have before the step.
inline constexpr std::string_view kCheckpointPrefix = "step-";
std::string snapshot_prefix(const std::string& export_folder);  // "NAME-step-"

std::string step_folder_name(std::int64_t step, std::string_view prefix = kCheckpointPrefix);

// The folders of steps in one directory.
struct StepFolders {
  std::string directory;
  std::string prefix{kCheckpointPrefix};
};

// The last step, `last` at most, that the run has a complete folder of; 0: none.
std::int64_t newest_step(const StepFolders& folders, std::int64_t last, const std::string& run);

// Of the run's folders, removes those written first until `keep` are left.
void keep_newest_steps(const StepFolders& folders, std::int64_t keep, const std::string& run);

// Whether checkpoints of a run can be written to `directory`, which need not exist, the model to
// `folder`, and snapshots of it beside that. Create nothing. Throw ConfigError, naming the option.
void check_checkpoint_directory(const std::string& directory, const std::string& run);
void check_export_folder(const std::string& folder, const std::string& run);
void check_snapshots(const std::string& export_folder, const std::string& run);

}  // namespace strata::engine
