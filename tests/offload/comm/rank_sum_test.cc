#include "offload/comm/rank_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace strata::comm {
namespace {

// Sizes around the blocks and tiles of the implementation, and odd ones.
TEST(RankSum, AddsInTheOrderOfTheTerms) {
  WorkerSet workers(2);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-12, 12);
  for (const std::int64_t elements : {0, 1, 1023, 1024, 1025, 32767, 32768, 32769, 100003}) {
    std::vector<std::vector<float>> terms(4,
                                          std::vector<float>(static_cast<std::size_t>(elements)));
    std::vector<const float*> pointers;
    for (auto& term : terms) {
      for (float& x : term) x = std::exp2(exponent(random));
      pointers.push_back(term.data());
    }
    std::vector<float> expected(terms[0]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (std::size_t rank = 1; rank < terms.size(); ++rank) expected[i] += terms[rank][i];
    }
    // In place, over the third term, as a rank does.
    sum_in_rank_order(workers, terms[2].data(), pointers, elements);
    EXPECT_EQ(terms[2], expected) << elements << " elements";
  }
}

}  // namespace
}  // namespace strata::comm
