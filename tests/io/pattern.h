// Bytes that tell where they belong and which write they came with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/aligned_buffer.h"

namespace strata::io {

// The byte that belongs at `position` of the storage after write number `generation`.
inline std::byte pattern(std::int64_t position, int generation) {
  const auto x = static_cast<std::uint64_t>(position) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>((x >> 56) ^ static_cast<std::uint64_t>(generation));
}

inline void fill(AlignedSpan span, std::int64_t offset_bytes, int generation) {
  for (std::int64_t i = 0; i < span.bytes(); ++i) {
    span.data()[i] = pattern(offset_bytes + i, generation);
  }
}

// The first position of `span` that does not hold its pattern, or -1.
inline std::int64_t first_difference(AlignedSpan span, std::int64_t offset_bytes, int generation) {
  for (std::int64_t i = 0; i < span.bytes(); ++i) {
    if (span.data()[i] != pattern(offset_bytes + i, generation)) return offset_bytes + i;
  }
  return -1;
}

}  // namespace strata::io
