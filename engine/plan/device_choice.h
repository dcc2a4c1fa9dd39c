// What --device came to, for people.
#pragma once

#include <string>

#include "engine/plan/run_setup.h"

namespace strata::engine {

// With the reason where auto chose it: "cpu; auto: no NVIDIA driver is installed (no
// libcuda.so.1)".
std::string device_choice(const RunSetup& setup);

}  // namespace strata::engine
