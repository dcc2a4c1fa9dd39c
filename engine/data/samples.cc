#include "engine/data/samples.h"

#include <algorithm>
#include <numeric>

#include "kernels/ops/cross_entropy.h"

namespace strata::engine {

void pad_rows(const SampleRows& rows, std::int64_t first) {
  const auto padding = [&](std::span<std::int32_t> column) {
    return column.subspan(static_cast<std::size_t>(first));
  };
  std::ranges::fill(padding(rows.tokens), 0);
  std::ranges::fill(padding(rows.targets), ops::kIgnoredTarget);
  const auto positions = padding(rows.positions);
  std::iota(positions.begin(), positions.end(), 0);
  std::ranges::fill(padding(rows.document_starts), static_cast<std::int32_t>(first));
}

}  // namespace strata::engine
