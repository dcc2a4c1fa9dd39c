// FaultStorage: a Storage in memory, or around another, that misbehaves on purpose, from a seed.
//
// For tests of everything above io/. It delays, reorders and fails requests as its rules say; the
// same seed gives the same decisions per request number. A request here is one read() or write()
// with bytes in it, carried out by a thread of the storage's own, so that completions come late and
// out of order. Every error names the seed. Not for production use.
#pragma once

#include <cstdint>
#include <memory>

#include "io/storage.h"

namespace strata::io {

struct FaultRules {
  std::uint64_t seed = 1;
  int delay_us_max = 0;                // each request is completed after 0..max microseconds
  double error_probability = 0;        // fails with EIO
  std::int64_t fail_request = -1;      // this request (counted from 0) fails with EIO
  std::int64_t full_after_bytes = -1;  // writes beyond this total fail with ENOSPC
  std::int64_t flip_read = -1;         // one bit of this read's data (reads from 0) is flipped
};

// A storage in memory of this size (for tests that want no disk).
std::unique_ptr<Storage> make_memory_storage(std::int64_t capacity_bytes);

std::unique_ptr<Storage> make_fault_storage(std::unique_ptr<Storage> under,
                                            const FaultRules& rules);

}  // namespace strata::io
