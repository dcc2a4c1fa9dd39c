// Counts every call that takes memory from the heap (malloc and its kin, operator new) while armed,
// by who called: to see that the step loop allocates nothing. It replaces those functions for the
// whole process: include it in one file of a test. Sanitizers replace them too, and then nothing is
// counted.
//
// Vocabulary: a call is the program's own, or that of a library whose name is in a list given.
#pragma once

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace strata::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHeapCallsAreCounted = false;
#else
inline constexpr bool kHeapCallsAreCounted = true;
#endif

class HeapCalls {
 public:
  static void arm() {
    count_ = 0;
    armed_ = true;
  }
  static void disarm() { armed_ = false; }
  static void note(void* caller) {
    if (!armed_.load(std::memory_order_relaxed)) return;
    const std::size_t index = count_.fetch_add(1, std::memory_order_relaxed);
    if (index < callers_.size()) callers_[index] = caller;
  }

  static std::size_t count() { return count_; }
  // Of the calls since arm(), those not made by any of these libraries ("libdnnl"), each as
  // "object+offset (function)" for addr2line.
  static std::string not_from(std::span<const std::string_view> libraries) {
    std::string text;
    if (count_ > callers_.size()) text += "more calls than are kept; ";
    for (std::size_t i = 0; i < count_ && i < callers_.size(); ++i) {
      Dl_info info{};
      dladdr(callers_[i], &info);
      const std::string object = info.dli_fname != nullptr ? info.dli_fname : "?";
      bool listed = false;
      for (const std::string_view library : libraries) {
        listed = listed || object.find(library) != std::string::npos;
      }
      if (listed) continue;
      const auto offset =
          static_cast<const char*>(callers_[i]) - static_cast<char*>(info.dli_fbase);
      text += object + "+" + std::to_string(offset) + " (" +
              (info.dli_sname != nullptr ? info.dli_sname : "?") + "); ";
    }
    return text;
  }

 private:
  static inline std::atomic<bool> armed_{false};
  static inline std::atomic<std::size_t> count_{0};
  static inline std::array<void*, 1 << 16> callers_{};
};

}  // namespace strata::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

// Not through malloc above, and not inlined, so that the caller is whoever said `new`.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  if (void* const memory = __libc_malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  if (void* const memory = __libc_malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  strata::test::HeapCalls::note(__builtin_return_address(0));
  if (void* const memory = __libc_memalign(static_cast<std::size_t>(alignment), bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#endif
