// Device memory that an op uses between its own kernels, reserved when ops are attached. The ops of
// a device share it, so they are enqueued on one stream, or on streams that wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/error.h"

namespace strata::ops::cuda {

struct Scratch {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;

  // All of it, as T; `op` needs this many.
  template <typename T>
  T* as(const char* op, std::int64_t elements) const {
    const std::int64_t needed = elements * static_cast<std::int64_t>(sizeof(T));
    STRATA_CHECK(needed <= bytes, "{}: needs {} bytes of scratch memory, attached with {}", op,
                 needed, bytes);
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace strata::ops::cuda
