// The precondition of every Storage: what a request may name.
#pragma once

#include <cstdint>

#include "io/storage.h"
#include "kernels/base/error.h"

namespace strata::io {

inline void check_request(const Storage& storage, std::int64_t offset_bytes, AlignedSpan span) {
  const std::int64_t alignment = storage.alignment_bytes();
  STRATA_CHECK(offset_bytes >= 0 && span.bytes() <= storage.capacity_bytes() - offset_bytes,
               "{} bytes at offset {} of {}", span.bytes(), offset_bytes, storage.capacity_bytes());
  STRATA_CHECK(offset_bytes % alignment == 0 && span.bytes() % alignment == 0 &&
                   reinterpret_cast<std::uintptr_t>(span.data()) % alignment == 0,
               "{} bytes at offset {}, address {}: not all multiples of {}", span.bytes(),
               offset_bytes, static_cast<const void*>(span.data()), alignment);
}

}  // namespace strata::io
