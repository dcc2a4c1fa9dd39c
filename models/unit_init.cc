#include "models/unit_init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "models/philox.h"

namespace strata::models {
namespace {

constexpr std::int64_t kNormalsPerBlock = 4;

// FNV-1a, 64 bits.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// Box-Muller on two 32-bit words; in double, so that no libm's last bit shows in the f32 result.
std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  constexpr double kStep = 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log((a + 0.5) * kStep));  // (0, 1): never log(0)
  const double angle = 2.0 * std::numbers::pi * (b * kStep);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Standard normals 4 block … 4 block + 3 of the tensor whose name has this hash.
std::array<double, kNormalsPerBlock> normal_block(std::uint64_t seed, std::uint64_t name_hash,
                                                  std::uint64_t block) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto bits = philox4x32({low(block), high(block), low(name_hash), high(name_hash)},
                               {low(seed), high(seed)});
  const auto first = normal_pair(bits[0], bits[1]);
  const auto second = normal_pair(bits[2], bits[3]);
  return {first[0], first[1], second[0], second[1]};
}

// values = elements [first, first + values.size()) of the whole tensor.
void fill_normal(const TensorSpec& tensor, std::uint64_t seed, std::int64_t first,
                 std::span<float> values) {
  const std::uint64_t name_hash = hash_of(tensor.name);
  const double std_deviation = tensor.initial_std;
  const std::int64_t end = first + static_cast<std::int64_t>(values.size());
  for (std::int64_t index = first; index < end;) {
    const std::int64_t block = index / kNormalsPerBlock;
    const auto normals = normal_block(seed, name_hash, static_cast<std::uint64_t>(block));
    const std::int64_t block_end = std::min(end, (block + 1) * kNormalsPerBlock);
    for (; index < block_end; ++index) {
      values[index - first] = static_cast<float>(std_deviation * normals[index % kNormalsPerBlock]);
    }
  }
}

}  // namespace

void initial_values(const UnitSpec& unit, std::uint64_t seed, std::int64_t first_element,
                    std::span<float> values) {
  std::ranges::fill(values, 0.0f);
  const std::int64_t end_element = first_element + static_cast<std::int64_t>(values.size());
  for (const TensorSpec& tensor : unit.tensors) {
    const std::int64_t begin = std::max(first_element, tensor.offset_elements);
    const std::int64_t end = std::min(end_element, tensor.offset_elements + tensor.elements());
    if (begin >= end) continue;
    const std::span<float> piece = values.subspan(begin - first_element, end - begin);
    switch (tensor.initial) {
      case Initial::zeros:
        break;
      case Initial::ones:
        std::ranges::fill(piece, 1.0f);
        break;
      case Initial::normal:
        fill_normal(tensor, seed, tensor.first_row * tensor.cols + (begin - tensor.offset_elements),
                    piece);
        break;
    }
  }
}

}  // namespace strata::models
