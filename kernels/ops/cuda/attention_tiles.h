// What attention's kernels share: sizes of tiles, who sees whom, tiles of rows of one head, and
// sums of a warp. Kernels are compiled for some head sizes, kDim; a head of another size is padded
// with zeros in shared memory.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/device/cuda/async_copy.h"
#include "kernels/device/cuda/fragment.h"
#include "kernels/device/cuda/launch.h"
#include "kernels/ops/cuda/attention_call.h"

namespace strata::ops::cuda {

using namespace strata::cuda;  // NOLINT(google-build-using-namespace): kernel code

// Rows of a tile: those that a block owns, 16 for each warp, and those that it takes at a time. So
// many that all tiles fit into the 99 KiB that a block may have on every GPU since sm_80.
template <typename T, int kDim>
struct Tiles {
  static constexpr int rows_in(int bytes) {
    return std::min(64, bytes / (kDim * static_cast<int>(sizeof(T))));
  }
  static constexpr int kOwn = rows_in(32 * 1024);
  static constexpr int kOther = rows_in(16 * 1024);
  static constexpr int kThreads = kOwn / kFragment * kWarpThreads;
  using Tile = SharedTile<T, kDim>;
  static_assert(kOwn % kOther == 0 && Tile::bytes(kOwn + 2 * kOther) <= 99 * 1024);
};

// (B·rows, heads·D) in device memory.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  // Row 0 of one head of the sequence that begins at `row`.
  __device__ HeadRows head(const AttentionCall& call, std::int64_t row, std::int64_t index) const {
    return {data + row * stride + index * call.head_dim, stride};
  }
  // Whether its rows begin at multiples of a vector.
  __device__ bool in_vectors() const {
    return reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0 &&
           stride % Vector<T>::kElements == 0;
  }
};

// The queries that a block has, kQueries of one head of one sequence, and the keys that they may
// see. Late queries see most keys: they go first.
template <typename T>
struct QueryBlock {
  int first_query;
  std::int64_t sequence;
  std::int64_t head;
  HeadRows<const T> queries;
  HeadRows<const T> keys;
  HeadRows<const T> values;

  // Where its sequence begins among rows of queries, and its head in (B, H, T).
  __device__ std::int64_t row(const AttentionCall& call) const { return sequence * call.tokens; }
  __device__ std::int64_t statistics(const AttentionCall& call) const {
    return (sequence * call.heads + head) * call.tokens;
  }
};
template <int kQueries, typename T>
__device__ inline QueryBlock<T> query_block(const AttentionCall& call, const HeadRows<const T>& q,
                                            const HeadRows<const T>& k,
                                            const HeadRows<const T>& v) {
  const std::int64_t sequence = block_z();
  const std::int64_t head = block_y();
  const std::int64_t kv_head = head / call.heads_per_kv_head;
  return {.first_query = static_cast<int>(blocks_x() - 1 - block_x()) * kQueries,
          .sequence = sequence,
          .head = head,
          .queries = q.head(call, sequence * call.tokens, head),
          .keys = k.head(call, sequence * call.keys, kv_head),
          .values = v.head(call, sequence * call.keys, kv_head)};
}

// How many of a vector's columns, from `col` on, are the head's; not above 0: none.
template <typename T>
__device__ inline int columns_from(int col, int head_dim) {
  const int cols = head_dim - col;
  return cols < Vector<T>::kElements ? cols : Vector<T>::kElements;
}

// The first `cols` elements from an address of any alignment, then zeros.
template <typename T>
__device__ inline Vector<T> load_elements(const T* from, int cols) {
  Vector<T> values = {};
#pragma unroll
  for (int c = 0; c < Vector<T>::kElements; ++c) {
    if (c < cols) values.at[c] = load(from + c);
  }
  return values;
}

// A vector of a row's columns, from `col` on.
template <typename T>
__device__ inline Vector<T> columns_of(const HeadRows<const T>& head, int row, int col,
                                       int head_dim, bool in_vectors) {
  const T* const from = head.data + row * head.stride + col;
  const int cols = columns_from<T>(col, head_dim);
  return in_vectors && cols == Vector<T>::kElements ? load_vector(from) : load_elements(from, cols);
}

// A tile's rows become rows [first, first + rows) of a head, zeros from row `end` on and right of
// the head's columns. Complete after async_wait() and a barrier.
template <typename T, int kDim>
__device__ inline void load_tile(const SharedTile<T, kDim>& tile, int rows,
                                 const HeadRows<const T>& head, int first, int end, int head_dim) {
  using Tile = SharedTile<T, kDim>;
  static_assert(Tiles<T, kDim>::kThreads % Tile::kVectors == 0);
  constexpr int kRows = Tiles<T, kDim>::kThreads / Tile::kVectors;  // at a time
  const int vector = thread_index() % Tile::kVectors;
  const int cols = columns_from<T>(vector * Tile::kElements, head_dim);
  const bool whole = head.in_vectors() && cols == Tile::kElements;
  const int copied = whole ? std::min(rows, end - first) : 0;
  int row = thread_index() / Tile::kVectors;
  const T* from = head.data + (first + row) * head.stride + vector * Tile::kElements;
#pragma unroll 1
  for (; row < copied; row += kRows, from += kRows * head.stride) {
    copy_async(tile.vector(row, vector), from);
  }
#pragma unroll 1
  for (; row < rows; row += kRows, from += kRows * head.stride) {
    tile.vector(row, vector) = load_elements(from, first + row < end ? cols : 0);
  }
}

// Of what a warp sums up, 16 rows × kCols.
template <int kCols>
struct WarpSums {
  static constexpr int kFragments = kCols / kFragment;
  SumFragment fragments[kFragments];
};

// sums += left · rightᵀ with 16 rows of `left` from `row` on, and every row of `right`.
template <typename T, int kDim, int kCols>
__device__ inline void multiply_by_rows(WarpSums<kCols>& sums, const SharedTile<T, kDim>& left,
                                        int row, const SharedTile<T, kDim>& right, int head_dim) {
#pragma unroll 2
  for (int d = 0; d < head_dim; d += kDepth<T>) {
    const LeftFragment<T> factor = load_left(left, row, d);
#pragma unroll
    for (int n = 0; n < WarpSums<kCols>::kFragments; ++n) {
      multiply_add(sums.fragments[n], factor, load_right_of_rows(right, n * kFragment, d));
    }
  }
}

// sums += left · right, with `left` rounded to T and every row of `right`. Where every fragment has
// columns of the head none is asked, so that loads run ahead of products; in f32 they would spill.
template <typename T, int kDim, int kCols>
__device__ inline void multiply_by_columns(WarpSums<kDim>& sums, const WarpSums<kCols>& left,
                                           const SharedTile<T, kDim>& right, int head_dim) {
  const auto multiply = [&](auto all) {
#pragma unroll
    for (int k = 0; k < kCols; k += kDepth<T>) {
      const LeftFragment<T> factor = left_of<T>(left.fragments[k / kFragment], k % kFragment);
#pragma unroll
      for (int n = 0; n < WarpSums<kDim>::kFragments; ++n) {
        if (!all && n * kFragment >= head_dim) break;
        multiply_add(sums.fragments[n], factor, load_right(right, k, n * kFragment));
      }
    }
  };
  if (std::is_same_v<T, bf16> && head_dim > kDim - kFragment) {
    multiply(std::true_type());
  } else {
    multiply(std::false_type());
  }
}

// Rows of a head become a warp's sums, each times its factor: factors[0] for the row of entry 0,
// [1] for that of entry 2. Through 16 rows of a tile that the warp alone uses.
template <typename T, int kDim>
__device__ inline void store_sums(const HeadRows<T>& head, int first, int end, int head_dim,
                                  const WarpSums<kDim>& sums, const float (&factors)[2],
                                  const SharedTile<T, kDim>& tile, int tile_row) {
  using Tile = SharedTile<T, kDim>;
  sync_warp();
#pragma unroll
  for (int n = 0; n < WarpSums<kDim>::kFragments; ++n) {
#pragma unroll
    for (int i = 0; i < SumFragment::kEntries; ++i) {
      tile.element(tile_row + SumFragment::row(i), n * kFragment + SumFragment::column(i)) =
          narrow<T>(sums.fragments[n].at[i] * factors[i / 2 % 2]);
    }
  }
  sync_warp();
  const bool in_vectors = head.in_vectors();
  for (int i = lane_index(); i < kFragment * Tile::kVectors; i += kWarpThreads) {
    const int row = i / Tile::kVectors;
    const int col = i % Tile::kVectors * Tile::kElements;
    const Vector<T> values = tile.vector(tile_row + row, i % Tile::kVectors);
    T* const to = head.data + (first + row) * head.stride + col;
    const int cols = first + row < end ? columns_from<T>(col, head_dim) : 0;
    if (in_vectors && cols == Tile::kElements) {
      store_vector(to, values);
    } else {
#pragma unroll
      for (int c = 0; c < Tile::kElements; ++c) {
        if (c < cols) store(to + c, values.at[c]);
      }
    }
  }
}

// The first key that a query sees, at or after that of the query before it; the last is the one at
// its own position.
__device__ inline int first_visible_key(const AttentionCall& call, std::int64_t sequence,
                                        int query) {
  if (query >= call.tokens) return INT_MAX;
  const int by_window = call.window == 0 ? 0 : call.past + query - call.window + 1;
  const int by_document = call.document_starts == nullptr
                              ? 0
                              : load(call.document_starts + sequence * call.tokens + query);
  return std::max(by_window, by_document);
}

// Whether each of these queries sees each of these keys, which tiles without an edge need not ask
// again.
__device__ inline bool all_visible(const AttentionCall& call, int first_query, int queries,
                                   int first_key, int keys) {
  return call.document_starts == nullptr && first_query + queries <= call.tokens &&
         first_key + keys - 1 <= call.past + first_query &&
         (call.window == 0 || call.past + first_query + queries - call.window <= first_key);
}

template <typename T>
HeadRows<T> head_rows(const Matrix& matrix) {
  return {static_cast<T*>(matrix.data), matrix.stride};
}

// f.template operator()<T, kDim>() of the kernels for this type and head size.
template <typename T, typename F>
void with_head_dim(std::int64_t head_dim, const F& f) {
  if (head_dim <= 32) return f.template operator()<T, 32>();
  if (head_dim <= 64) return f.template operator()<T, 64>();
  if (head_dim <= 128) return f.template operator()<T, 128>();
  f.template operator()<T, 256>();
}
template <typename F>
void with_kernels_for(Dtype dtype, std::int64_t head_dim, const F& f) {
  if (dtype == Dtype::bf16) return with_head_dim<bf16>(head_dim, f);
  with_head_dim<float>(head_dim, f);
}

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

}  // namespace strata::ops::cuda
