// What must hold between the numbers of a manifest.
#pragma once

#include "offload/store/manifest.h"

namespace strata::store {

// Throws FormatError naming what is wrong: sizes out of bounds, parameters that leave their unit or
// overlap, extents that are not as long as their state, leave the data or overlap.
void check(const Manifest& manifest);

}  // namespace strata::store
