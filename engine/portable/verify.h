// Whether a portable checkpoint is what was written: reads all of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/portable/layout.h"

namespace strata::engine {

struct PortableVerification {
  PortableContent content = PortableContent::training_state;
  std::int64_t step = 0;
  std::int64_t bytes = 0;           // of tensors that were read
  std::vector<std::string> damage;  // a line for each range: tensor, elements, file
};

// Goes on to the end past damaged ranges. Throws what PortableReader throws for a folder that
// cannot be read at all.
PortableVerification verify_portable(const std::string& folder);

}  // namespace strata::engine
