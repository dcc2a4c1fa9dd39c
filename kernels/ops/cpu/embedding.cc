#include "kernels/ops/cpu/embedding.h"

#include <cstring>

#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {
namespace {

const ElementwiseKernels& kernels_of(CpuDevice& device) {
  return kernel_table(op_state(device).isa).elementwise;
}

std::int64_t row_bytes(const Matrix& matrix) { return matrix.cols * bytes_of(matrix.dtype); }

float* f32_row(const Matrix& matrix, std::int64_t row) {
  return reinterpret_cast<float*>(address_of(matrix, row));
}

void zero_rows(const Matrix& matrix, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    std::memset(address_of(matrix, row), 0, static_cast<std::size_t>(row_bytes(matrix)));
  }
}

}  // namespace

void embedding_forward(CpuDevice& device, const Matrix& x, Into into, const std::int32_t* ids,
                       const Matrix& table, std::int64_t first_id) {
  annotate_read(ids, x.rows * kIdBytes);
  annotate_read(table);
  annotate_write(x);
  const auto add = kernels_of(device).add[x.dtype];
  for_each_range(device, x.rows, kTileRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t entry = ids[row] - first_id;
      const bool found = entry >= 0 && entry < table.rows;
      std::byte* const out = address_of(x, row);
      if (into == Into::add) {
        if (found) add(out, out, address_of(table, entry), x.cols);
      } else if (found) {
        std::memcpy(out, address_of(table, entry), static_cast<std::size_t>(row_bytes(x)));
      } else {
        zero_rows(x, row, row + 1);
      }
    }
  });
}

// Each tile walks all ids over its own columns, so that the rows of one id are added in order.
void embedding_backward(CpuDevice& device, const Matrix& dtable, Into into, const Matrix& dx,
                        const std::int32_t* ids, std::int64_t first_id) {
  annotate_read(ids, dx.rows * kIdBytes);
  annotate_read(dx);
  annotate_write(dtable);
  if (into == Into::overwrite) {
    for_each_range(device, dtable.rows, kTileRows,
                   [&](std::int64_t begin, std::int64_t end) { zero_rows(dtable, begin, end); });
  }
  const auto accumulate = kernels_of(device).accumulate[dx.dtype];
  for_each_range(device, dx.cols, kTileColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < dx.rows; ++row) {
      const std::int64_t entry = ids[row] - first_id;
      if (entry < 0 || entry >= dtable.rows) continue;
      accumulate(f32_row(dtable, entry) + begin, address_of(dx, row, begin), end - begin);
    }
  });
}

}  // namespace strata::ops::cpu
