#include "engine/options/exit_code.h"

namespace strata::engine {

int exit_code_of(const std::exception& error) {
  if (const auto* exit = dynamic_cast<const ExitError*>(&error)) return exit->exit_code();
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? kExitUsage : kExitFailed;
}

}  // namespace strata::engine
