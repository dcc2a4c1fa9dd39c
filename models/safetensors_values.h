// The numbers of a safetensors file's floating-point tensors as f32. Every value of these types is
// an f32, so nothing is rounded; a NaN stays one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace strata::models {

// F32, F16 or BF16.
bool is_widened(std::string_view dtype);

// `bytes`: as many values of such a type as there are in `values`, little endian, at any alignment.
void widen(std::string_view dtype, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace strata::models
