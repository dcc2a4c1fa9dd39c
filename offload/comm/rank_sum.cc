#include "offload/comm/rank_sum.h"

#include <algorithm>
#include <array>

#include "kernels/base/bytes.h"

namespace strata::comm {
namespace {

constexpr std::int64_t kTileElements = 32768;  // a worker's share: long enough to hide its start
constexpr std::int64_t kBlockElements = 1024;  // partial sums, kept in the L1 cache

void sum_block(float* destination, std::span<const float* const> terms, std::int64_t begin,
               std::int64_t elements) {
  std::array<float, kBlockElements> sum;
  std::copy_n(terms[0] + begin, elements, sum.data());
  for (const float* term : terms.subspan(1)) {
    for (std::int64_t i = 0; i < elements; ++i) sum[i] += term[begin + i];
  }
  std::copy_n(sum.data(), elements, destination + begin);
}

}  // namespace

void sum_in_rank_order(WorkerSet& workers, float* destination, std::span<const float* const> terms,
                       std::int64_t elements) {
  workers.parallel_for(ceil_div(elements, kTileElements), [&](std::int64_t tile, int) {
    const std::int64_t end = std::min(elements, (tile + 1) * kTileElements);
    for (std::int64_t i = tile * kTileElements; i < end; i += kBlockElements) {
      sum_block(destination, terms, i, std::min(kBlockElements, end - i));
    }
  });
}

}  // namespace strata::comm
