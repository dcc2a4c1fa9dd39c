#include "kernels/ops/cuda/rotary.h"

#include <cmath>

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {
namespace {

template <typename T>
struct Rotary {
  Rows<T> x;
  std::uint32_t heads;
  std::int64_t half;  // of a head
  const float* cos;   // (table_rows, half)
  const float* sin;
  std::int64_t table_rows;
  const std::int32_t* positions;
  float sign;
};

// The grid is (rows × heads, half): a thread turns a piece of a head's first half and its partner
// in the second.
// Floor: one read and one write of x, over the bandwidth; rows of the tables come from the caches.
template <typename T>
__global__ void rotate(PieceGrid grid, Rotary<T> op) {
  constexpr int kPairs = kPieceColumns<T>;
  for_own_piece<kPairs>(grid, [&](std::int64_t index, std::int64_t pair, auto extent) {
    const std::int64_t row = static_cast<std::uint32_t>(index) / op.heads;
    const std::int64_t head = static_cast<std::uint32_t>(index) % op.heads;
    const std::int32_t position = load(op.positions + row);
    const bool known = position >= 0 && position < op.table_rows;
    const std::int64_t entry = (known ? position : 0) * op.half + pair;
    const auto cos = load_piece<kPairs>(op.cos + entry, extent);
    const auto sin = load_piece<kPairs>(op.sin + entry, extent);
    T* const x = op.x.at(row, head * 2 * op.half + pair);
    auto first = load_piece<kPairs>(x, extent);
    auto second = load_piece<kPairs>(x + op.half, extent);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float c = known ? cos.at[i] : NAN;
      const float s = op.sign * sin.at[i];
      const float turned = first.at[i] * c - second.at[i] * s;
      second.at[i] = second.at[i] * c + first.at[i] * s;
      first.at[i] = turned;
    }
    store_piece(x, first, extent);
    store_piece(x + op.half, second, extent);
  });
}

void run(const char* op, cudaStream_t stream, const Matrix& x, const RotaryTables& tables,
         const std::int32_t* positions, float sign) {
  const std::int64_t half = tables.head_dim / 2;
  const std::int64_t heads = x.cols / tables.head_dim;
  const bool vectors = allow_vectors(x) && half * bytes_of(x.dtype) % kVectorBytes == 0 &&
                       allow_vectors(tables.cos) && allow_vectors(tables.sin);
  with_type(x.dtype, [&]<typename T>() {
    const Rotary<T> operands = {.x = rows_of<T>(x),
                                .heads = static_cast<std::uint32_t>(heads),
                                .half = half,
                                .cos = tables.cos,
                                .sin = tables.sin,
                                .table_rows = tables.positions,
                                .positions = positions,
                                .sign = sign};
    launch_pieces<kPieceColumns<T>>(op, stream, {x.rows * heads, half, vectors}, rotate<T>,
                                    operands);
  });
}

}  // namespace

void rotary_forward(cudaStream_t stream, const Matrix& x, const RotaryTables& tables,
                    const std::int32_t* positions) {
  run("rotary_forward", stream, x, tables, positions, 1);
}

void rotary_backward(cudaStream_t stream, const Matrix& dx, const RotaryTables& tables,
                     const std::int32_t* positions) {
  run("rotary_backward", stream, dx, tables, positions, -1);
}

}  // namespace strata::ops::cuda
