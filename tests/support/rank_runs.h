// Runs of one or several ranks inside the test's process, each rank a thread, on processors or on a
// GPU that they share.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "offload/comm/nccl.h"
#include "tests/support/engine_run.h"
#include "tests/support/thread_ranks.h"

namespace strata::test {

// Smaller than shards, so that a reduce-scatter is several.
inline constexpr std::int64_t kNcclPieceBytes = 8 * kKiB;

// Runs body(ranks) as each rank. Rethrows what the first of those that threw did; NCCL's
// collectives of the others end then, too.
inline void run_ranks(int world_size, const engine::RankDevice& device,
                      const std::function<void(const engine::Ranks&)>& body) {
  ThreadRanks threads(world_size);
  std::vector<FailureLatch> failures(static_cast<std::size_t>(world_size));
  const auto run = [&](comm::Communicator& host) {
    FailureLatch& failure = failures[static_cast<std::size_t>(host.rank())];
    engine::RankDevice mine = device;
    std::unique_ptr<comm::Communicator> between_gpus;
    if (mine.gpu) {
      auto& [backend, gpu] = *mine.gpu;
      between_gpus = comm::make_nccl_communicator(backend, host, gpu,
                                                  {.piece_bytes = kNcclPieceBytes}, failure);
      gpu = device.gpu->gpu;  // budgets of tests are without what NCCL takes
    }
    body({between_gpus ? *between_gpus : host, failure, {}, mine});
  };
  const auto thrown = threads.run([&](comm::Communicator& host) {
    try {
      run(host);
    } catch (...) {
      for (FailureLatch& failure : failures) failure.set(std::current_exception());
      throw;
    }
  });
  for (const std::exception_ptr& error : thrown) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// The whole masters, of all ranks; what ranks must agree on is rank 0's.
inline RunResult joined(const std::vector<RunResult>& of_ranks) {
  RunResult result = of_ranks.front();
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    const RunResult& next = of_ranks[rank];
    EXPECT_EQ(next.losses, result.losses);
    EXPECT_EQ(next.grad_norms, result.grad_norms);
    EXPECT_EQ(next.validation_loss, result.validation_loss);
    for (std::size_t u = 0; u < result.masters.size(); ++u) {
      result.masters[u].insert(result.masters[u].end(), next.masters[u].begin(),
                               next.masters[u].end());
    }
  }
  return result;
}

}  // namespace strata::test
