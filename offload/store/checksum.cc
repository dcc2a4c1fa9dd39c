#include "offload/store/checksum.h"

#include <xxh_x86dispatch.h>

#include "kernels/base/annotate.h"

namespace strata::store {

std::uint64_t checksum(const std::byte* data, std::int64_t bytes, std::uint64_t seed) {
  annotate_read(data, bytes);
  return XXH3_64bits_withSeed(data, static_cast<std::size_t>(bytes), seed);
}

}  // namespace strata::store
