#include "models/safetensors_values.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"

namespace strata::models {

namespace {

// IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 bits of fraction.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1Fu;
  const std::uint32_t fraction = half & 0x3FFu;
  std::uint32_t magnitude = 0;
  if (exponent == 0) {
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  } else if (exponent == 0x1F) {
    magnitude = 0x7F800000u | fraction << 13;
  } else {
    magnitude = (exponent + 127 - 15) << 23 | fraction << 13;
  }
  return std::bit_cast<float>(sign | magnitude);
}

template <typename Convert>
void widen_each(std::span<const std::byte> bytes, std::span<float> values, Convert convert) {
  const std::byte* from = bytes.data();
  for (float& value : values) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    from += sizeof bits;
    value = convert(bits);
  }
}

}  // namespace

bool is_widened(std::string_view dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

void widen(std::string_view dtype, std::span<const std::byte> bytes, std::span<float> values) {
  STRATA_CHECK(is_widened(dtype), "{}", dtype);
  STRATA_CHECK(bytes.size() == values.size() * (dtype == "F32" ? 4 : 2));
  if (dtype == "F32") {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (dtype == "F16") {
    widen_each(bytes, values, from_half);
  } else {
    widen_each(bytes, values, [](std::uint16_t bits) { return to_float(bf16{bits}); });
  }
}

}  // namespace strata::models
