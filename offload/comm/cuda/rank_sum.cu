#include "offload/comm/cuda/rank_sum.h"

#include "kernels/ops/cuda/pieces.h"

namespace strata::comm {
namespace {

using namespace ops::cuda;  // NOLINT(google-build-using-namespace): kernel code

constexpr int kElements = kPieceColumns<float>;  // of a thread

struct Terms {
  float* own;
  const float* others;
  std::int64_t stride;
  int rank;
  int ranks;

  __device__ const float* of(int term) const {
    return term == rank ? own : others + (term < rank ? term : term - 1) * stride;
  }
};

// Floor: `ranks` reads and one write of 4 bytes per element, over the bandwidth.
__global__ void rank_sum(PieceGrid grid, Terms terms) {
  for_own_piece<kElements>(grid, [&](std::int64_t, std::int64_t first, auto extent) {
    Piece<kElements> sum = load_piece<kElements>(terms.of(0) + first, extent);
    for (int term = 1; term < terms.ranks; ++term) {
      const Piece<kElements> next = load_piece<kElements>(terms.of(term) + first, extent);
#pragma unroll
      for (int i = 0; i < kElements; ++i) sum.at[i] = add_rn(sum.at[i], next.at[i]);
    }
    store_piece(terms.own + first, sum, extent);
  });
}

}  // namespace

void sum_in_rank_order(cudaStream_t stream, float* own, const float* others, std::int64_t stride,
                       int rank, int ranks, std::int64_t elements) {
  if (ranks == 1) return;
  const bool vectors = allow_vectors(own) && allow_vectors(others) && stride % kElements == 0;
  launch_pieces<kElements>("rank_sum", stream, PieceGrid{1, elements, vectors}, rank_sum,
                           Terms{own, others, stride, rank, ranks});
}

}  // namespace strata::comm
