// What every Stream asks of the operands of a copy, before it enqueues it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/base/error.h"

namespace strata {

// The caller has dealt with copies of no bytes.
inline void check_copy(const void* destination, const void* source, std::int64_t bytes) {
  const auto* const to = static_cast<const std::byte*>(destination);
  const auto* const from = static_cast<const std::byte*>(source);
  const bool overlap = std::less<>()(to, from + bytes) && std::less<>()(from, to + bytes);
  STRATA_CHECK(bytes > 0 && !overlap, "copy of {} bytes", bytes);
}

}  // namespace strata
