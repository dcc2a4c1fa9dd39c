// libFuzzer target: a store's manifest. Any text is refused with a FormatError, or means a manifest
// that encodes to one that means the same.
#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/store/manifest.h"
#include "offload/store/superblock.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::store;
  try {
    const Manifest manifest = decode_manifest({reinterpret_cast<const char*>(data), size});
    const std::string encoded = encode(manifest);
    if (encode(decode_manifest(encoded)) != encoded) std::abort();
    if (commit_table_bytes(manifest) <= 0) std::abort();
  } catch (const strata::FormatError&) {
  }
  return 0;
}
