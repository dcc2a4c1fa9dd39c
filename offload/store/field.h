// Numbers and texts at fixed places of a byte span, little endian. A format is a list of them,
// which encoding and decoding share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "kernels/base/error.h"

namespace strata::store {

static_assert(std::endian::native == std::endian::little);

template <typename T>
struct Field {
  static_assert(std::is_integral_v<T>);
  std::size_t offset;

  T get(std::span<const std::byte> bytes) const {
    T value;
    std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
    return value;
  }
  void put(std::span<std::byte> bytes, T value) const {
    std::memcpy(bytes.subspan(offset, sizeof value).data(), &value, sizeof value);
  }
};

// Up to capacity - 1 bytes, and zeros behind them.
struct TextField {
  std::size_t offset;
  std::size_t capacity;

  // Throws FormatError when it has no end, or something behind it.
  std::string get(std::span<const std::byte> bytes, const char* name) const {
    const auto place = bytes.subspan(offset, capacity);
    const auto end = std::find(place.begin(), place.end(), std::byte{0});
    if (end == place.end() ||
        std::any_of(end, place.end(), [](std::byte byte) { return byte != std::byte{0}; })) {
      throw_error<FormatError>("the {} is not a text", name);
    }
    return {reinterpret_cast<const char*>(place.data()),
            static_cast<std::size_t>(end - place.begin())};
  }
  // What does not fit is cut.
  void put(std::span<std::byte> bytes, const std::string& text) const {
    const auto place = bytes.subspan(offset, capacity);
    std::memcpy(place.data(), text.data(), std::min(text.size(), capacity - 1));
  }
};

// Throws FormatError unless first <= value <= last.
inline void check_range(const char* name, std::int64_t value, std::int64_t first,
                        std::int64_t last) {
  if (value >= first && value <= last) return;
  if (first == last) throw_error<FormatError>("{} is {}, not {}", name, value, first);
  throw_error<FormatError>("{} is {}, not {} to {}", name, value, first, last);
}

}  // namespace strata::store
