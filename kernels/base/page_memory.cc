#include "kernels/base/page_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14; older C libraries do not name it
#define MADV_POPULATE_WRITE 23
#endif

namespace strata {
namespace {

constexpr std::int64_t kHugePageBytes = 2 * kMiB;

// MAP_FAILED with errno set when the system refuses.
void* map_anywhere(std::int64_t bytes) {
  return ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Begins at a huge page, so that whole ones fit in from the start: maps more and gives the rest
// back.
void* map_at_huge_page(std::int64_t bytes) {
  void* const mapped = map_anywhere(bytes + kHugePageBytes);
  if (mapped == MAP_FAILED) return mapped;
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin));
  const std::int64_t lead_bytes = round_up(address, kHugePageBytes) - address;
  unmap_pages(begin + lead_bytes + bytes, kHugePageBytes - lead_bytes);
  if (lead_bytes > 0) unmap_pages(begin, lead_bytes);
  return begin + lead_bytes;
}

}  // namespace

std::byte* map_pages(std::string_view what, std::int64_t bytes) {
  STRATA_CHECK(bytes > 0 && bytes % kPageBytes == 0, "{}: {} bytes", what, bytes);
  void* const data = bytes < kHugePageBytes ? map_anywhere(bytes) : map_at_huge_page(bytes);
  if (data == MAP_FAILED) {
    throw_error<Error>("{}: the system refuses to map {} ({} bytes): {}; lower the memory budgets",
                       what, format_bytes(bytes), bytes, std::strerror(errno));
  }
  // Advice: a system without huge pages refuses it, and works all the same.
  (void)::madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

void populate_pages(std::string_view what, std::byte* data, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::int64_t lead_bytes = static_cast<std::int64_t>(address % kPageBytes);
  std::byte* const begin = data - lead_bytes;
  const std::int64_t span_bytes = round_up(lead_bytes + bytes, kPageBytes);
  int result = 0;
  do {
    result = ::madvise(begin, static_cast<std::size_t>(span_bytes), MADV_POPULATE_WRITE);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno == EINVAL) {  // a kernel before 5.14: touch them
    for (std::int64_t offset = 0; offset < span_bytes; offset += kPageBytes) {
      auto* const byte = reinterpret_cast<volatile std::byte*>(begin + offset);
      *byte = *byte;
    }
    return;
  }
  throw_error<Error>("{}: the system has no memory for {} ({} bytes): {}; lower the memory budgets",
                     what, format_bytes(bytes), bytes, std::strerror(errno));
}

void unmap_pages(std::byte* data, std::int64_t bytes) noexcept {
  if (data != nullptr) ::munmap(data, static_cast<std::size_t>(bytes));
}

}  // namespace strata
