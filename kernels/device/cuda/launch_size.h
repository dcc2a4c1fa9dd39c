// The size of a launch (launch.h).
#pragma once

#include <cstdint>
#include <source_location>

namespace strata::cuda {

struct LaunchSize {
  std::int64_t blocks_x = 1;
  std::int64_t blocks_y = 1;
  std::int64_t blocks_z = 1;
  int threads = 256;              // of a block: whole warps
  std::int64_t shared_bytes = 0;  // of a block; above 48 KiB it is asked for
  std::source_location where = std::source_location::current();  // for reports
};

}  // namespace strata::cuda
