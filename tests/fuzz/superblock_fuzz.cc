// libFuzzer target: a superblock, and behind it the commit table of a small store.
#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/store/superblock.h"
#include "tests/fuzz/small_store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::store;
  static const Manifest manifest = strata::fuzz::small_store();
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const int copy : {0, 1}) {
    try {
      const auto superblock = decode_superblock(bytes, copy);
      if (!superblock) continue;
      if (decode_superblock(encode(*superblock), copy)->step != superblock->step) std::abort();
      const CommitTable table =
          decode_commit_table(bytes.subspan(kSuperblockBytes), *superblock, manifest);
      if (encode(table, manifest).empty()) std::abort();
    } catch (const strata::FormatError&) {
    }
  }
  return 0;
}
