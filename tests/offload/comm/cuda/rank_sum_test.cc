// The sum on the GPU has the bits of the one on the CPU, whatever sizes and alignment allow.
#include "offload/comm/cuda/rank_sum.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda_sim/sim_device.h"
#include "kernels/base/worker_set.h"
#include "offload/comm/rank_sum.h"

namespace strata::comm {
namespace {

using cuda_sim::Memory;
using cuda_sim::Pinned;
using cuda_sim::TestStream;

constexpr int kRanks = 3;

// Magnitudes from 2^-12 to 2^12: the order of additions shows.
float term(int rank, std::int64_t i) {
  const auto hash = static_cast<std::uint32_t>(i * 2654435761 + rank * 40503 + 17) * 2246822519u;
  return std::ldexp(static_cast<float>(hash >> 8) / 16777216.0f - 0.5f,
                    static_cast<int>(hash % 25) - 12);
}

void check(int rank, std::int64_t elements, std::int64_t offset, std::int64_t stride) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", " << elements << " elements from "
                                  << offset << ", stride " << stride);
  std::vector<std::vector<float>> terms(kRanks);
  Pinned<float> own(elements);
  Pinned<float> others((kRanks - 1) * stride);
  std::vector<const float*> pointers;
  int other = 0;
  for (int from = 0; from < kRanks; ++from) {
    auto& values = terms[static_cast<std::size_t>(from)];
    for (std::int64_t i = 0; i < elements; ++i) values.push_back(term(from, i));
    std::ranges::copy(values, from == rank ? own.data() : others.data() + stride * other++);
    pointers.push_back(values.data());
  }
  std::vector<float> expected(static_cast<std::size_t>(elements));
  WorkerSet workers(1);
  sum_in_rank_order(workers, expected.data(), pointers, elements);

  const TestStream stream;
  const Memory<float> own_memory(elements + offset);
  const Memory<float> others_memory((kRanks - 1) * stride);
  float* const destination = own_memory.data() + offset;
  EXPECT_CUDA(cudaMemcpyAsync(destination, own.data(), own.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaMemcpyAsync(others_memory.data(), others.data(), others.bytes(),
                              cudaMemcpyDefault, stream));
  sum_in_rank_order(stream, destination, others_memory.data(), stride, rank, kRanks, elements);
  EXPECT_CUDA(cudaMemcpyAsync(own.data(), destination, own.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(std::memcmp(own.data(), expected.data(), own.bytes()), 0);
}

TEST(CudaRankSum, HasTheBitsOfTheCpu) {
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const std::int64_t elements : {1, 3, 4, 1023, 1025, 5000}) {
      check(rank, elements, 0, elements);
      check(rank, elements, 1, elements);
      check(rank, elements, 0, (elements + 7) / 4 * 4);
    }
  }
}

}  // namespace
}  // namespace strata::comm
