// Checks of options that need no file and no machine.
#pragma once

#include <string>

#include "engine/options/options.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda_backend.h"

namespace strata::engine {

// Ranges and combinations. Throws ConfigError.
void check_options(const Options& options);

// Of them, what commands that train nothing have too. Throw ConfigError.
void check_tiers(const Options& options);  // with --nvme
void check_arithmetic(const Options& options);
void check_nvme(const Options& options);
void check_timeouts(const Options& options);
void check_device(const Options& options);  // that there is a GPU, where cuda is asked for

// What train needs and plan does not: data, and a number of steps or epochs. Throws ConfigError.
void check_training_options(const Options& options);

// Of eval and generate: what they share, and each its own. Throw ConfigError.
void check_eval_options(const Options& options);
void check_generate_options(const Options& options);

// Of export: its two operands. Throws ConfigError.
void check_export_options(const Options& options);

// Runs `work`, whose ConfigErrors then name the option.
template <typename Work>
void name_in_errors(const char* option, const Work& work) {
  try {
    work();
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("--{}: {}", option, e.what());
  }
}

// The CUDA backend where --device stands for a GPU of this machine, and why auto is none. Throws
// ConfigError for cuda where there is none.
CudaSearch resolve_device(const Options& options);

}  // namespace strata::engine
