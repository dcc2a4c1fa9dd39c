// libFuzzer target: a store's header. Any bytes are refused with a FormatError, or mean a header
// that encodes to one that means the same.
#include <cstdlib>

#include "kernels/base/error.h"
#include "offload/store/file_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::store;
  try {
    const FileHeader header = decode_header(std::as_bytes(std::span(data, size)));
    const auto encoded = encode(header);
    if (encode(decode_header(encoded)) != encoded) std::abort();
  } catch (const strata::FormatError&) {
  }
  return 0;
}
