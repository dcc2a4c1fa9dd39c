// The portable checkpoints of a run in a folder: step-00000050 and others, and whose they are.
// strata.json names the folder of the run; what is of another run is neither replaced nor deleted.
// Throws IoError naming the path.
#pragma once

#include <cstdint>
#include <string>

namespace strata::engine {

// How strata.json names the run of a folder: by its path, without links.
std::string run_name(const std::string& run_folder);

// Whether `folder` is a portable checkpoint, or a model, of the run of that name.
bool is_of_run(const std::string& folder, const std::string& run);

// "step-00000050": the folder of a step's portable checkpoint.
std::string step_folder_name(std::int64_t step);

// Of the run's folders of steps in `directory`, removes those written first until `keep` are left.
void keep_newest_steps(const std::string& directory, std::int64_t keep, const std::string& run);

// Whether checkpoints of a run can be written to `directory`, which need not exist, and a folder to
// `folder`. Create nothing. Throw ConfigError, naming the option.
void check_checkpoint_directory(const std::string& directory, const std::string& run);
void check_export_folder(const std::string& folder, const std::string& run);

}  // namespace strata::engine
