#include "optim_cuda/cuda/gradient.h"

#include <cmath>

#include "kernels/ops/cuda/pieces.h"
#include "optim_cpu/gradient.h"

namespace strata::optim::cuda {
namespace {

using namespace ops::cuda;  // NOLINT(google-build-using-namespace): kernel code

// Floor: two reads and one write of 4 bytes per element, over the bandwidth.
__global__ void accumulate_pieces(PieceGrid grid, float* accumulated, const float* addend) {
  constexpr int kElements = kPieceColumns<float>;
  for_own_piece<kElements>(grid, [&](std::int64_t, std::int64_t first, auto extent) {
    Piece<kElements> sum = load_piece<kElements>(accumulated + first, extent);
    const Piece<kElements> next = load_piece<kElements>(addend + first, extent);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum.at[i] = add_rn(sum.at[i], next.at[i]);
    store_piece(accumulated + first, sum, extent);
  });
}

// Floor: a read of 4 bytes and a write of T per element, over the bandwidth.
template <typename T>
__global__ void round_pieces(PieceGrid grid, T* destination, const float* source) {
  constexpr int kElements = kPieceColumns<T>;
  for_own_piece<kElements>(grid, [&](std::int64_t, std::int64_t first, auto extent) {
    Piece<kElements> values = load_piece<kElements>(source + first, extent);
#pragma unroll
    for (int i = 0; i < kElements; ++i) values.at[i] = widen(narrow<bf16>(values.at[i]));
    store_piece(destination + first, values, extent);
  });
}

constexpr int kLanes = 16;  // sums that are added up in f64, pairwise at the end
constexpr int kSumThreads = 256;

// Each block has kLanes threads, which read consecutive elements: the order of optim_cpu's sums. A
// square of an f32 is exact in f64, so an fma has the bits of a product and a sum. Floor: one read
// of T per element, over the bandwidth.
template <typename T>
__global__ void square_sums(double* sums, const T* gradient, std::int64_t first,
                            std::int64_t last) {
  const std::int64_t thread = block_x() * kSumThreads + thread_index();
  const std::int64_t block = first / kSquareSumElements + thread / kLanes;
  const std::int64_t begin = std::max(first, block * kSquareSumElements);
  const std::int64_t end = std::min(last, (block + 1) * kSquareSumElements);
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = begin + thread % kLanes; i < end; i += kLanes) {
    const double value = widen(load(gradient + i));
    sum = fma(value, value, sum);
  }
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum = add_rn(sum, shuffle_xor(sum, lanes));
  if (thread % kLanes == 0 && begin < end) store(sums + block, add_rn(load(sums + block), sum));
}

}  // namespace

void accumulate(cudaStream_t stream, float* accumulated, const float* addend,
                std::int64_t elements) {
  const bool vectors = allow_vectors(accumulated) && allow_vectors(addend);
  launch_pieces<kPieceColumns<float>>("accumulate", stream, PieceGrid{1, elements, vectors},
                                      accumulate_pieces, accumulated, addend);
}

template <typename T>
void round_to_bf16(cudaStream_t stream, T* destination, const float* source,
                   std::int64_t elements) {
  const bool vectors = allow_vectors(destination) && allow_vectors(source);
  launch_pieces<kPieceColumns<T>>("round_to_bf16", stream, PieceGrid{1, elements, vectors},
                                  round_pieces<T>, destination, source);
}
template void round_to_bf16(cudaStream_t, bf16*, const float*, std::int64_t);
template void round_to_bf16(cudaStream_t, float*, const float*, std::int64_t);

void add_square_sums(cudaStream_t stream, double* sums, const void* gradient, Dtype dtype,
                     std::int64_t first, std::int64_t last) {
  if (first >= last) return;
  const std::int64_t blocks = ceil_div(last, kSquareSumElements) - first / kSquareSumElements;
  const LaunchSize size{.blocks_x = ceil_div(blocks * kLanes, kSumThreads), .threads = kSumThreads};
  with_type(dtype, [&]<typename T>() {
    check(launch(stream, size, square_sums<T>, sums, static_cast<const T*>(gradient), first, last),
          "add_square_sums");
  });
}

}  // namespace strata::optim::cuda
