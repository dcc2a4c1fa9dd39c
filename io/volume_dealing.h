// How a volume's stripes are dealt to its directories: by given or measured bandwidth, within the
// space that is free.
#pragma once

#include "io/stripe_map.h"
#include "io/volume.h"

namespace strata::io {

// While the directories are locked (directory_locks.h). Throws what check_directories() throws,
// IoError when a drive fails while it is measured.
StripeMap deal_stripes(const VolumeOptions& options);

}  // namespace strata::io
