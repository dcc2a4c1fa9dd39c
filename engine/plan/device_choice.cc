#include "engine/plan/device_choice.h"

namespace strata::engine {

std::string device_choice(const RunSetup& setup) {
  const std::string& reason = setup.device.reason;
  return device_name(setup) + (reason.empty() ? "" : "; auto: " + reason);
}

}  // namespace strata::engine
