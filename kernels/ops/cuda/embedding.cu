#include "kernels/ops/cuda/embedding.h"

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {
namespace {

// The part of a table that is here.
struct Chunk {
  std::int64_t first_id;
  std::int64_t rows;
  __device__ bool has(std::int32_t id) const { return id >= first_id && id - first_id < rows; }
};

// Floor: one write of x and one read of the rows found (and of x, where it adds), over the
// bandwidth.
template <typename T>
__global__ void look_up(PieceGrid grid, Rows<T> x, Into into, const std::int32_t* ids,
                        Rows<const T> table, Chunk chunk) {
  constexpr int kColumns = kPieceColumns<T>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto extent) {
    const std::int32_t id = load(ids + row);
    const bool found = chunk.has(id);
    if (into == Into::add && !found) return;
    Piece<kColumns> values = {};
    if (found) values = load_piece<kColumns>(table.at(id - chunk.first_id, column), extent);
    T* const out = x.at(row, column);
    if (into == Into::add) {
      const auto before = load_piece<kColumns>(out, extent);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) values.at[i] += before.at[i];
    }
    store_piece(out, values, extent);
  });
}

// Floor: one write, over the bandwidth.
__global__ void zero(PieceGrid grid, Rows<float> x) {
  constexpr int kColumns = kPieceColumns<float>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto extent) {
    store_piece(x.at(row, column), Piece<kColumns>{}, extent);
  });
}

// The rows of dx that are found in the chunk, ordered by id and then by row. A run is the rows of
// one id; its first row has it, the others have none.
struct Run {
  std::int32_t begin;  // in the order
  std::int32_t rows;
};

constexpr int kOrderThreads = 256;

// A warp for each row counts those that come before it, in M / 32 steps: 2 million for 8k rows, all
// together, and no sort. Ids come from the caches.
__global__ void order_rows(const std::int32_t* ids, std::int64_t rows, Chunk chunk, Run* runs,
                           std::int32_t* order) {
  const std::int64_t row = block_x() * (kOrderThreads / kWarpThreads) + warp_index();
  if (row >= rows) return;
  const std::int32_t id = load(ids + row);
  Run run = {0, 0};
  if (chunk.has(id)) {
    std::int32_t smaller = 0, earlier = 0, same = 0;
    for (std::int64_t other = lane_index(); other < rows; other += kWarpThreads) {
      const std::int32_t other_id = load(ids + other);
      smaller += other_id >= chunk.first_id && other_id < id;
      earlier += other_id == id && other < row;
      same += other_id == id;
    }
    for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
      smaller += shuffle_xor(smaller, lanes);
      earlier += shuffle_xor(earlier, lanes);
      same += shuffle_xor(same, lanes);
    }
    if (lane_index() == 0) store(order + smaller + earlier, static_cast<std::int32_t>(row));
    if (earlier == 0) run = {smaller, same};
  }
  if (lane_index() == 0) store(runs + row, run);
}

// A thread for each row of dx and piece of its columns; where the row begins a run, it adds the
// run's rows to their row of the table, in order.
// Floor: one read of the rows of dx that are found, one read and write of their rows of the table.
template <typename T>
__global__ void add_runs(PieceGrid grid, Rows<float> dtable, Rows<const T> dx,
                         const std::int32_t* ids, Chunk chunk, const Run* runs,
                         const std::int32_t* order) {
  constexpr int kColumns = kPieceColumns<T>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto extent) {
    const Run run = load(runs + row);
    if (run.rows == 0) return;
    float* const result = dtable.at(load(ids + row) - chunk.first_id, column);
    auto sums = load_piece<kColumns>(result, extent);
#pragma unroll 4
    for (std::int32_t i = run.begin; i < run.begin + run.rows; ++i) {
      const auto values = load_piece<kColumns>(dx.at(load(order + i), column), extent);
#pragma unroll
      for (int k = 0; k < kColumns; ++k) sums.at[k] = add_rn(sums.at[k], values.at[k]);
    }
    store_piece(result, sums, extent);
  });
}

}  // namespace

void embedding_forward(cudaStream_t stream, const Matrix& x, Into into, const std::int32_t* ids,
                       const Matrix& table, std::int64_t first_id) {
  const PieceGrid grid{x.rows, x.cols, allow_vectors(x) && allow_vectors(table)};
  with_type(x.dtype, [&]<typename T>() {
    launch_pieces<kPieceColumns<T>>("embedding_forward", stream, grid, look_up<T>, rows_of<T>(x),
                                    into, ids, rows_of<const T>(table),
                                    Chunk{first_id, table.rows});
  });
}

void embedding_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dtable,
                        Into into, const Matrix& dx, const std::int32_t* ids,
                        std::int64_t first_id) {
  constexpr const char* kName = "embedding_backward";
  const bool vectors = allow_vectors(dtable) && allow_vectors(dx);
  if (into == Into::overwrite) {
    launch_pieces<kPieceColumns<float>>(kName, stream, {dtable.rows, dtable.cols, vectors}, zero,
                                        rows_of<float>(dtable));
  }
  if (dx.rows == 0) return;
  const Chunk chunk{first_id, dtable.rows};
  auto* const runs =
      reinterpret_cast<Run*>(scratch.as<std::byte>(kName, embedding_scratch_bytes(dx.rows)));
  auto* const order = reinterpret_cast<std::int32_t*>(runs + dx.rows);
  check(launch(
            stream,
            {.blocks_x = ceil_div(dx.rows, kOrderThreads / kWarpThreads), .threads = kOrderThreads},
            order_rows, ids, dx.rows, chunk, runs, order),
        kName);
  with_type(dx.dtype, [&]<typename T>() {
    constexpr int kThreads = 64;  // few: a frequent id's columns are spread over the GPU
    launch_pieces<kPieceColumns<T>, kThreads>(kName, stream, {dx.rows, dx.cols, vectors},
                                              add_runs<T>, rows_of<float>(dtable),
                                              rows_of<const T>(dx), ids, chunk, runs, order);
  });
}

std::int64_t embedding_scratch_bytes(std::int64_t rows) {
  return rows * std::int64_t{sizeof(Run) + sizeof(std::int32_t)};
}

}  // namespace strata::ops::cuda
