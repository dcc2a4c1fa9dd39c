// What ThreadSanitizer cannot see, told to it: memory that JIT-compiled matmuls and the kernel's
// I/O read and write. Every op launch and every I/O submission and completion says which bytes it
// touches, on the thread that touches them, so that a missing wait is a race report on any machine.
// Empty in other builds.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace strata {

inline void annotate_read([[maybe_unused]] const void* data, [[maybe_unused]] std::int64_t bytes) {
#if defined(__SANITIZE_THREAD__)
  __tsan_read_range(const_cast<void*>(data), static_cast<unsigned long>(bytes));
#endif
}

inline void annotate_write([[maybe_unused]] void* data, [[maybe_unused]] std::int64_t bytes) {
#if defined(__SANITIZE_THREAD__)
  __tsan_write_range(data, static_cast<unsigned long>(bytes));
#endif
}

// An order that holds but that ThreadSanitizer cannot see (through the kernel's rings).
inline void annotate_release([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(address);
#endif
}
inline void annotate_acquire([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(address);
#endif
}

}  // namespace strata
