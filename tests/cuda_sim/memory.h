// Memory of the simulated device.
//
//   device addresses   kBase …              never accessible: whoever dereferences one, host code
//                                           or a kernel, ends the process with a report
//   their bytes        kBytesOffset above   reached through checked() alone
//   granules           one entry for each 256 bytes: how many of them may be accessed
//
// What may be accessed are the ranges of cudaMalloc(); once a piece of such a range was handed out
// (place_piece(), for the arena of a CudaDevice), its pieces only. Each allocation has twice the
// addresses that it has bytes, and a piece lies at twice its offset: behind it are as many
// addresses that belong to nobody, so that who leaves it does not meet its neighbour. New memory
// reads as 0xFF bytes: NaNs, and indices of -1. Freed pieces are filled with them.
//
// ThreadSanitizer sees accesses as the stream's thread makes them. Thread-safe; checks of accesses
// take no lock, so they order nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::cuda_sim {

inline constexpr std::uintptr_t kBase = 0x7e90'0000'0000;  // sanitizers know it as the program's
inline constexpr std::uintptr_t kSpanBytes = std::uintptr_t{64} << 30;
inline constexpr std::uintptr_t kBytesOffset = kSpanBytes;
inline constexpr std::uintptr_t kGranuleBytes = 256;
inline constexpr std::int64_t kTotalBytes = std::int64_t{16} << 30;  // what the device says it has
inline constexpr std::int64_t kContextBytes = std::int64_t{256} << 20;  // of it, never free

using Granule = std::atomic<std::uint16_t>;
inline Granule* granules() { return reinterpret_cast<Granule*>(kBase + 2 * kSpanBytes); }

enum class Access : std::uint8_t { read, write };

[[noreturn]] void refuse_access(const void* address, std::uintptr_t bytes, Access access);

// The bytes of `elements` device addresses, which must be in one granule.
template <Access access, typename T>
inline T* checked(T* address, std::uintptr_t bytes = sizeof(T)) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t offset = at - kBase;
  if (offset >= kSpanBytes || at % bytes != 0 ||
      offset % kGranuleBytes + bytes >
          granules()[offset / kGranuleBytes].load(std::memory_order_relaxed)) [[unlikely]] {
    refuse_access(address, bytes, access);
  }
  return reinterpret_cast<T*>(at + kBytesOffset);
}

// The same for any number of bytes at any address. Each granule is checked.
void* checked_range(const void* address, std::int64_t bytes, Access access);

inline bool is_device_address(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - kBase < kSpanBytes;
}

// Null: not so much is free. `bytes` > 0.
void* allocate(std::int64_t bytes);
// False: no such allocation.
bool free(void* address);
std::int64_t free_bytes();

// What is handed out of an allocation and taken back, whole granules: the address of a piece at an
// offset, and the other way round.
void* place_piece(void* allocation, std::int64_t offset_bytes, std::int64_t bytes);
std::int64_t take_back_piece(void* allocation, void* piece, std::int64_t bytes);

}  // namespace strata::cuda_sim
