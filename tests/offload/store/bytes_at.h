// Numbers in encoded bytes, by their documented offsets.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace strata::store::testing {

template <typename T>
T at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace strata::store::testing
