// How CPU ops are cut into tiles for the workers: by shape alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/base/bytes.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/operands.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kTileColumns = 64;
inline constexpr std::int64_t kTileElements = 16384;

// body(begin, end) on ranges of at most `tile` that cover [0, count).
template <typename Body>
void for_each_range(CpuDevice& device, std::int64_t count, std::int64_t tile, const Body& body) {
  device.workers().parallel_for(ceil_div(count, tile), [&](std::int64_t index, int /*worker*/) {
    body(index * tile, std::min(count, (index + 1) * tile));
  });
}

// body(elements, row pointer of each operand…) on contiguous pieces that cover operands of one
// shape.
template <typename Body, typename... Operands>
void for_each_span(CpuDevice& device, const Body& body, const Matrix& first,
                   const Operands&... others) {
  const bool dense = first.stride == first.cols && (... && (others.stride == others.cols));
  const std::int64_t rows = dense ? 1 : first.rows;
  const std::int64_t cols = dense ? first.rows * first.cols : first.cols;
  const std::int64_t pieces_per_row = ceil_div(cols, kTileElements);
  const std::int64_t rows_per_tile = std::max<std::int64_t>(1, kTileElements / cols);
  device.workers().parallel_for(
      ceil_div(rows, rows_per_tile) * pieces_per_row, [&](std::int64_t tile, int /*worker*/) {
        const std::int64_t row_begin = tile / pieces_per_row * rows_per_tile;
        const std::int64_t row_end = std::min(rows, row_begin + rows_per_tile);
        const std::int64_t column = tile % pieces_per_row * kTileElements;
        const std::int64_t elements = std::min(kTileElements, cols - column);
        for (std::int64_t row = row_begin; row < row_end; ++row) {
          body(elements, address_of(first, row, column), address_of(others, row, column)...);
        }
      });
}

}  // namespace strata::ops::cpu
