// Shards of state in which every element of a unit is known by its index in the unsharded unit,
// laid out by docs/optimizer.md and not by the code under test.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"
#include "offload/plan.h"

namespace strata::engine::testing {

// What padding holds: `garbage` is what no shard made of another may show.
enum class Padding : std::uint8_t { zeros, garbage };

struct StatePattern {
  int unit = 0;
  offload::StateKind kind = offload::StateKind::weights;
  offload::StateDtypes dtypes;
  std::int64_t unit_elements = 0;
  std::uint64_t version = 0;

  // The bytes of elements [first, first + count) of the unit, one block of a shard.
  std::vector<std::byte> block(std::int64_t first, std::int64_t count, Padding padding) const {
    const bool int8 = offload::is_moment(kind) && dtypes.moments == MomentFormat::int8;
    const std::int64_t each = int8 ? 1 : offload::element_bytes(kind, dtypes);
    const std::int64_t scale_bytes = int8 ? round_up(count / 256 * 4, std::int64_t{4096}) : 0;
    std::vector<std::byte> bytes(static_cast<std::size_t>(count * each + scale_bytes));
    for (std::int64_t i = 0; i < count; ++i) {
      put(bytes, i * each, each, value(first + i, first + i >= unit_elements, padding));
    }
    for (std::int64_t group = 0; int8 && group < count / 256; ++group) {
      const std::int64_t element = first + group * 256;
      put(bytes, count + group * 4, 4, value(element + kScales, element >= unit_elements, padding));
    }
    return bytes;
  }

 private:
  static constexpr std::int64_t kScales = std::int64_t{1} << 40;

  static void put(std::vector<std::byte>& bytes, std::int64_t offset, std::int64_t count,
                  std::uint64_t value) {
    std::memcpy(bytes.data() + offset, &value, static_cast<std::size_t>(count));
  }
  std::uint64_t value(std::int64_t index, bool is_padding, Padding padding) const {
    if (is_padding) return padding == Padding::zeros ? 0 : ~std::uint64_t{0};
    SplitMix64 random{version << 48 |
                      static_cast<std::uint64_t>(unit * 8 + static_cast<int>(kind)) << 41 |
                      static_cast<std::uint64_t>(index)};
    return random();
  }
};

}  // namespace strata::engine::testing
