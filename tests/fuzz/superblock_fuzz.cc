// libFuzzer target: a superblock, and behind it the commit table of a small store.
#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/store/superblock.h"
#include "tests/fuzz/small_store.h"
#include "tests/offload/store/encoded.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::store;
  using strata::store::testing::encoded;
  static const Manifest manifest = strata::fuzz::small_store();
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const int copy : {0, 1}) {
    try {
      const auto superblock = decode_superblock(bytes, copy);
      if (!superblock) continue;
      if (decode_superblock(encoded(*superblock), copy)->step != superblock->step) std::abort();
      if (superblock->kind == SuperblockKind::started) continue;
      const auto table_bytes = bytes.subspan(kSuperblockBytes);
      const CommitTable table = decode_commit_table(table_bytes, *superblock, manifest);
      const auto again = encoded(table, superblock->sequence, manifest);
      if (decode_commit_table(again, *superblock, manifest).live_slots != table.live_slots) {
        std::abort();
      }
    } catch (const strata::FormatError&) {
    }
  }
  return 0;
}
