// Stands in for offload/store/checksum.cc: every checksum is zero, so that a fuzzer gets behind
// them.
#include "offload/store/checksum.h"

namespace strata::store {

std::uint64_t checksum(const std::byte*, std::int64_t, std::uint64_t) { return 0; }

}  // namespace strata::store
