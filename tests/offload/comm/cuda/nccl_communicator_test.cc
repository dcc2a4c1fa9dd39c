// The NCCL communicator on the simulated device, with real ranks under mpirun.
#include <csignal>
#include <functional>
#include <map>

#include "cuda_sim/faults.h"
#include "cuda_sim/nccl.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/gpu.h"
#include "offload/comm/cuda/nccl_communicator.h"
#include "tests/offload/comm/communicator_conformance.h"
#include "tests/offload/comm/rank_test.h"

namespace strata::comm {
namespace {

constexpr std::chrono::milliseconds kShortTimeout{2000};
constexpr std::int64_t kPieceBytes = 1008;
constexpr std::int64_t kMemoryBytes = 64 * kMiB;

// ---- Ranks ----------------------------------------------------------------------------------

struct Run {
  explicit Run(std::chrono::milliseconds timeout)
      : mpi(make_mpi_communicator({.timeout = timeout}, failure)), gpu(cuda::open_gpu(0)) {
    const std::int64_t before_bytes = gpu.context_bytes;
    auto nccl = std::make_unique<NcclCommunicator>(
        *mpi, gpu, NcclOptions{.timeout = timeout, .piece_bytes = kPieceBytes}, failure);
    nccl_bytes = gpu.context_bytes - before_bytes;
    rank.emplace(std::move(nccl), [this](Budget& host_budget, WorkerSet&) {
      return std::make_unique<CudaDevice>(
          CudaDeviceOptions{.gpu = gpu, .device_memory_bytes = gpu.context_bytes + kMemoryBytes},
          host_budget, failure);
    });
  }
  Communicator& comm() { return *rank->comm; }

  FailureLatch failure;
  std::unique_ptr<Communicator> mpi;
  Gpu gpu;
  std::int64_t nccl_bytes = 0;
  std::optional<ConformanceRank> rank;
};

int conformance(Run& run) {
  ConformanceRank::current = &*run.rank;
  GTEST_FLAG_SET(filter, "CommunicatorConformance.*");
  return RUN_ALL_TESTS();
}

// What NCCL takes of the device counts as the context's.
int charged(Run& run) {
  if (run.comm().world_size() == 2 && run.nccl_bytes >= 2 * kMiB) return EXIT_SUCCESS;
  std::printf("NCCL took %lld bytes\n", static_cast<long long>(run.nccl_bytes));
  return EXIT_FAILURE;
}

int report(Run& run, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    std::printf("rank %d reports: %s\n", run.comm().rank(), error.what());
    run.comm().abort(EXIT_FAILURE);
  }
  return EXIT_SUCCESS;
}

void reduce_forever(Run& run, std::int64_t shard_elements = 10000) {
  const auto gradients =
      run.rank->device->allocate("test", shard_elements * 4 * run.comm().world_size());
  while (true) {
    run.comm().reduce_scatter(*run.rank->stream, reinterpret_cast<float*>(gradients.data()),
                              shard_elements);
    run.rank->stream->synchronize();
  }
}

int signalled(Run& run, int signal) {
  return report(run, [&] {
    if (run.comm().rank() == 1) std::raise(signal);
    reduce_forever(run);
  });
}

int absent(Run& run) {
  return report(run, [&] {
    if (run.comm().rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    reduce_forever(run);
  });
}

// NCCL of rank 1 meets an error, when called or later on its stream.
int broken(Run& run, const char* function) {
  return report(run, [&] {
    if (run.comm().rank() == 1) cuda_sim::fail_call(function, 3, ncclSystemError);
    reduce_forever(run);
  });
}

int disagreeing(Run& run) {
  return report(run, [&] { reduce_forever(run, run.comm().rank() == 1 ? 100 : 200); });
}

// The last rank goes on alone for longer than the timeout; the other waits for it, and all end
// well.
int late(Run& run) {
  if (run.comm().rank() == 1) std::this_thread::sleep_for(kShortTimeout * 3 / 2);
  return EXIT_SUCCESS;
}

int play(const std::string& role) {
  const std::map<std::string, std::function<int(Run&)>> roles = {
      {"conformance", conformance},
      {"charged", charged},
      {"stopped", [](Run& run) { return signalled(run, SIGSTOP); }},
      {"killed", [](Run& run) { return signalled(run, SIGKILL); }},
      {"absent", absent},
      {"broken-call", [](Run& run) { return broken(run, "ncclSend"); }},
      {"broken-work", [](Run& run) { return broken(run, cuda_sim::kNcclWork); }},
      {"disagreeing", disagreeing},
      {"late", late},
      {"idle", [](Run&) { return EXIT_SUCCESS; }},
  };
  try {
    Run run(role == "conformance" ? std::chrono::milliseconds(60000) : kShortTimeout);
    return roles.at(role)(run);
  } catch (const Error& error) {
    std::printf("error: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

// ---- Tests ----------------------------------------------------------------------------------

class NcclCommunicatorTest : public RankTest {};

TEST_F(NcclCommunicatorTest, ConformsWithOneToThreeRanks) {
  for (int ranks = 1; ranks <= 3; ++ranks) expect_success(launch(ranks, "conformance"));
}

TEST_F(NcclCommunicatorTest, MemoryOfNcclIsCharged) { expect_success(launch(2, "charged")); }

TEST_F(NcclCommunicatorTest, StoppedRankIsNamedByTheOthers) {
  const Outcome outcome = launch(3, "stopped");
  expect_end_with(outcome, "reports: rank 1 has not answered for ");
  expect_end_with(outcome, "(--comm-timeout 2 s) in reduce-scatter");
}

TEST_F(NcclCommunicatorTest, KilledRankEndsTheRun) {
  expect_end_with(launch(3, "killed"), "rank 1");
}

TEST_F(NcclCommunicatorTest, RankThatAnswersButTakesNoPartIsNamed) {
  const Outcome outcome = launch(3, "absent");
  expect_end_with(outcome, "reports: reduce-scatter has waited ");
  expect_end_with(outcome, "for rank 1, which answers but did not take part");
}

TEST_F(NcclCommunicatorTest, ErrorOfACallNamesTheRank) {
  expect_end_with(launch(2, "broken-call"), "reduce-scatter failed on rank 1: unhandled system");
}

TEST_F(NcclCommunicatorTest, ErrorOnTheStreamNamesTheRank) {
  expect_end_with(launch(2, "broken-work"), "reduce-scatter failed on rank 1: unhandled system");
}

// The simulated NCCL's own check.
TEST_F(NcclCommunicatorTest, RanksThatDisagreeAreReported) {
  expect_end_with(launch(2, "disagreeing"), "hardware would hang or corrupt memory");
}

TEST_F(NcclCommunicatorTest, RanksPartTogether) { expect_success(launch(2, "late")); }

}  // namespace
}  // namespace strata::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3) return strata::comm::play(argv[1]);
  // The conformance tests are for the ranks.
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "-CommunicatorConformance.*");
  return RUN_ALL_TESTS();
}
