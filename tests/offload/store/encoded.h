// Superblocks and commit tables as bytes of their own.
#pragma once

#include <cstddef>
#include <vector>

#include "offload/store/superblock.h"

namespace strata::store::testing {

inline std::vector<std::byte> encoded(const Superblock& superblock) {
  std::vector<std::byte> bytes(kSuperblockBytes);
  encode(superblock, bytes);
  return bytes;
}

inline std::vector<std::byte> encoded(const CommitTable& table, std::int64_t sequence,
                                      const Manifest& manifest) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(commit_table_bytes(manifest)));
  encode(table, sequence, manifest, bytes);
  return bytes;
}

}  // namespace strata::store::testing
