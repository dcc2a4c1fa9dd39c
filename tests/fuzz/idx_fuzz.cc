// libFuzzer target: a Megatron index. The first 8 bytes of the input are the size of its .bin, the
// rest is the .idx. Any bytes are refused with a FormatError, or describe all tokens of the .bin.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "engine/data/token_format.h"
#include "kernels/base/error.h"

namespace {

// A file in memory, which can be opened by its path.
struct MemoryFile {
  const int descriptor = ::memfd_create("fuzz", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);

  void set(const std::uint8_t* data, std::size_t size, std::int64_t file_bytes) const {
    if (::ftruncate(descriptor, 0) != 0 || ::ftruncate(descriptor, file_bytes) != 0 ||
        ::pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
      std::abort();
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::engine;
  static const MemoryFile index_file;
  static const MemoryFile tokens_file;
  std::int64_t tokens_bytes = 0;
  if (size < sizeof(tokens_bytes)) return 0;
  std::memcpy(&tokens_bytes, data, sizeof(tokens_bytes));
  tokens_bytes &= std::numeric_limits<std::int64_t>::max();
  const std::size_t index_bytes = size - sizeof(tokens_bytes);
  tokens_file.set(nullptr, 0, tokens_bytes);
  index_file.set(data + sizeof(tokens_bytes), index_bytes, static_cast<std::int64_t>(index_bytes));
  try {
    const InputFile index(index_file.path);
    const InputFile tokens(tokens_file.path);
    const TokenLayout layout = megatron_layout(index, tokens).tokens;
    if (layout.offset_bytes + layout.tokens * bytes_of(layout.type) != tokens_bytes) std::abort();
  } catch (const strata::FormatError&) {
  }
  return 0;
}
