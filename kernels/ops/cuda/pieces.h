// Rows as the memory-bound kernels see them: pieces of kColumns consecutive columns, each of one
// thread. A piece is Whole, read and written 16 bytes at a time, or a Part, element by element: at
// the end of a row, and everywhere where an operand's addresses do not allow vectors. Which thread
// has which columns does not depend on that, and so no sum's order does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/kernel_code.h"
#include "kernels/device/cuda/launch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

using namespace strata::cuda;  // NOLINT(google-build-using-namespace): kernel code

// Columns of a piece of operands of these types: 16 bytes of the narrowest.
template <typename... Types>
inline constexpr int kPieceColumns = kVectorBytes / static_cast<int>(std::min({sizeof(Types)...}));

template <int kColumns>
struct Piece {
  float at[kColumns];
};

struct Whole {};
struct Part {
  int columns;  // the first ones; the others read as `fill` and are not written
};

template <int kColumns, typename T>
__device__ Piece<kColumns> load_piece(const T* x, Whole, float /*fill*/ = 0) {
  constexpr int kElements = Vector<T>::kElements;
  Piece<kColumns> piece;
#pragma unroll
  for (int first = 0; first < kColumns; first += kElements) {
    const Vector<T> vector = load_vector(x + first);
#pragma unroll
    for (int i = 0; i < kElements; ++i) piece.at[first + i] = widen(vector.at[i]);
  }
  return piece;
}
template <int kColumns, typename T>
__device__ Piece<kColumns> load_piece(const T* x, Part part, float fill = 0) {
  Piece<kColumns> piece;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) piece.at[i] = i < part.columns ? widen(load(x + i)) : fill;
  return piece;
}

template <int kColumns, typename T>
__device__ void store_piece(T* y, const Piece<kColumns>& piece, Whole) {
  constexpr int kElements = Vector<T>::kElements;
#pragma unroll
  for (int first = 0; first < kColumns; first += kElements) {
    Vector<T> vector;
#pragma unroll
    for (int i = 0; i < kElements; ++i) vector.at[i] = narrow<T>(piece.at[first + i]);
    store_vector(y + first, vector);
  }
}
template <int kColumns, typename T>
__device__ void store_piece(T* y, const Piece<kColumns>& piece, Part part) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    if (i < part.columns) store(y + i, narrow<T>(piece.at[i]));
  }
}

inline constexpr std::int64_t kF32Bytes = bytes_of(Dtype::f32);

// The rows of a Matrix.
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;
  __device__ T* at(std::int64_t row, std::int64_t column = 0) const {
    return data + row * stride + column;
  }
};
template <typename T>
Rows<T> rows_of(const Matrix& matrix) {
  return {static_cast<T*>(matrix.data), matrix.stride};
}

inline bool allow_vectors(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0;
}
inline bool allow_vectors(const Matrix& matrix) {
  return allow_vectors(matrix.data) && matrix.stride * bytes_of(matrix.dtype) % kVectorBytes == 0;
}

// Where every thread has one piece of a (rows, cols) matrix.
struct PieceGrid {
  std::int64_t rows;
  std::int64_t cols;
  bool vectors;  // all operands allow them
};

// body(row, column, Whole or Part) for the thread's piece, if it has one.
template <int kColumns, typename Body>
__device__ void for_own_piece(const PieceGrid& grid, const Body& body) {
  // A division of 64 bits would take as long as the memory.
  const auto index = static_cast<std::uint32_t>(block_x() * block_threads() + thread_index());
  const auto row_pieces = static_cast<std::uint32_t>(ceil_div(grid.cols, kColumns));
  const std::int64_t row = index / row_pieces;
  if (row >= grid.rows) return;
  const std::int64_t column = std::int64_t{index % row_pieces} * kColumns;
  const std::int64_t left = grid.cols - column;
  if (grid.vectors && left >= kColumns) {
    body(row, column, Whole{});
  } else {
    body(row, column, Part{static_cast<int>(std::min<std::int64_t>(left, kColumns))});
  }
}

template <int kColumns, int kThreads = 256, typename... Parameters, typename... Arguments>
void launch_pieces(const char* op, cudaStream_t stream, const PieceGrid& grid,
                   void (*kernel)(PieceGrid, Parameters...), Arguments... arguments) {
  const std::int64_t pieces = grid.rows * ceil_div(grid.cols, kColumns);
  STRATA_CHECK(pieces <= INT32_MAX, "{}: ({}, {}) is too large", op, grid.rows, grid.cols);
  if (pieces == 0) return;
  check(launch(stream, {.blocks_x = ceil_div(pieces, kThreads), .threads = kThreads}, kernel, grid,
               arguments...),
        op);
}

// body(piece, Whole or Part) for the pieces of a row that are `member`'s, one in `members`.
template <int kColumns, typename Body>
__device__ void for_pieces(std::int64_t cols, bool vectors, int member, int members,
                           const Body& body) {
  const std::int64_t whole = vectors ? cols / kColumns : 0;
  std::int64_t piece = member;
  for (; piece < whole; piece += members) body(piece, Whole{});
  for (; piece * kColumns < cols; piece += members) {
    const std::int64_t left = cols - piece * kColumns;
    body(piece, Part{static_cast<int>(std::min<std::int64_t>(left, kColumns))});
  }
}

// body.operator()<T>() with the type of `dtype`.
template <typename Body>
void with_type(Dtype dtype, const Body& body) {
  if (dtype == Dtype::f32) {
    body.template operator()<float>();
  } else {
    body.template operator()<bf16>();
  }
}

}  // namespace strata::ops::cuda
