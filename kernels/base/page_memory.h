// Anonymous memory straight from the system: mapped, zero-filled, huge pages advised. For the two
// owners of page memory, AlignedBuffer and the cpu device's arena; others use those.
//
// Mapping takes addresses only; populating makes pages resident, so that what a budget says is what
// the process holds. Errors are thrown as Error and name `what`, the sizes and the system's reason.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

// `bytes` > 0: a whole number of pages (kPageBytes). From 2 MiB on it begins at a huge page: the
// fewer pieces a transfer's memory has, the faster some drives are (docs/benchmarks.md).
std::byte* map_pages(std::string_view what, std::int64_t bytes);

// Makes every page that [data, data + bytes) touches resident; contents are kept.
void populate_pages(std::string_view what, std::byte* data, std::int64_t bytes);

// Null is allowed.
void unmap_pages(std::byte* data, std::int64_t bytes) noexcept;

}  // namespace strata
