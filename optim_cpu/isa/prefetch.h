// How far ahead the loops over a state prefetch: each array by itself, since there are more of them
// than the hardware's prefetchers follow well.
#pragma once

#include <cstdint>

namespace strata::optim::STRATA_ISA {

inline constexpr std::int64_t kBlockElements = 64;      // between rounds of prefetching
inline constexpr std::int64_t kPrefetchElements = 512;  // ahead of the block at work

// Bytes [begin, end), into the first-level cache.
inline void prefetch_bytes(const void* data, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kCacheLineBytes = 64;
  for (std::int64_t i = begin; i < end; i += kCacheLineBytes) {
    __builtin_prefetch(static_cast<const char*>(data) + i);
  }
}

// Elements [begin, end).
template <typename T>
void prefetch(const T* data, std::int64_t begin, std::int64_t end) {
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
  prefetch_bytes(data, begin * kElementBytes, end * kElementBytes);
}

}  // namespace strata::optim::STRATA_ISA
