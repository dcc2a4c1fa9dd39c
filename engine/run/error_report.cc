#include "engine/run/error_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "engine/run/interrupt_watch.h"
#include "kernels/base/error.h"

namespace strata::engine {

int exit_code_of(const std::exception& error) {
  if (const auto* interrupted = dynamic_cast<const Interrupted*>(&error)) {
    return kExitSignalled + interrupted->signal();
  }
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? kExitUsage : kExitFailed;
}

void print_error(std::string_view message) {
  fmt::print(stderr, "strata: error: {}\n", message);
  std::fflush(stderr);
}

}  // namespace strata::engine
