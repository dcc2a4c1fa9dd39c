// libFuzzer target: a safetensors file. Any bytes are refused with a FormatError, or have a header
// that means the same when it is written again.
#include <cstdlib>
#include <span>
#include <string_view>

#include "kernels/base/error.h"
#include "models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::models;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const std::int64_t offset =
        safetensors_data_offset(std::as_bytes(std::span(file)), std::ssize(file));
    const std::string_view json = file.substr(8, static_cast<std::size_t>(offset) - 8);
    const std::int64_t data_bytes = std::ssize(file) - offset;
    const SafetensorsHeader header = decode_safetensors(json, data_bytes);
    const std::string encoded = encode_safetensors(header);
    const SafetensorsHeader again =
        decode_safetensors(std::string_view(encoded).substr(8), data_bytes);
    if (again.tensors.size() != header.tensors.size() || again.metadata != header.metadata) {
      std::abort();
    }
  } catch (const strata::FormatError&) {
  }
  return 0;
}
