// The MPI communicator, with real ranks: each test starts this executable again under mpirun, as
// ranks that play a role, and checks how they end and what they print.
//
// Runs that must end by themselves are watched by timeout(1), whose status 124 fails the test.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "kernels/base/error.h"
#include "tests/offload/comm/communicator_conformance.h"
#include "tests/offload/comm/rank_test.h"

namespace strata::comm {
namespace {

constexpr std::chrono::milliseconds kShortTimeout{2000};

// ---- Ranks ----------------------------------------------------------------------------------

struct Run {
  FailureLatch failure;
  std::unique_ptr<ConformanceRank> rank;
  Communicator& comm() { return *rank->comm; }
};

int conformance(Run& run) {
  ConformanceRank::current = run.rank.get();
  GTEST_FLAG_SET(filter, "CommunicatorConformance.*");
  return RUN_ALL_TESTS();
}

// Prints what ended the work as one line and ends all ranks, as the program's main does.
int report(Run& run, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    std::printf("rank %d reports: %s\n", run.comm().rank(), error.what());
    run.comm().abort(EXIT_FAILURE);
  }
  return EXIT_SUCCESS;
}

void reduce_forever(Run& run) {
  constexpr std::int64_t kShardElements = 10000;
  const auto gradients =
      run.rank->device->allocate("test", kShardElements * 4 * run.comm().world_size());
  while (true) {
    run.comm().reduce_scatter(*run.rank->stream, reinterpret_cast<float*>(gradients.data()),
                              kShardElements);
    run.rank->stream->synchronize();
  }
}

void wait_for_failure(Run& run) {
  while (true) {
    run.failure.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Rank 1 meets `signal` after a few collectives; the others go on.
int signalled(Run& run, int signal, const std::function<void(Run&)>& others) {
  return report(run, [&] {
    for (int i = 0; i < 3; ++i) run.comm().barrier();
    if (run.comm().rank() == 1) std::raise(signal);
    others(run);
  });
}

int absent(Run& run) {
  return report(run, [&] {
    if (run.comm().rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    reduce_forever(run);
  });
}

int failing(Run& run) {
  return report(run, [&] {
    if (run.comm().rank() != 1) return reduce_forever(run);
    std::thread elsewhere([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      run.failure.set(std::make_exception_ptr(IoError("the drive is gone")));
    });
    try {
      run.comm().broadcast({}, 1);
      run.comm().barrier();  // the others never come
    } catch (const IoError& error) {
      elsewhere.join();
      throw;
    }
  });
}

int unwinding(Run& run) {
  if (run.comm().rank() == 1) throw ConfigError("no such file");
  return report(run, [&] { reduce_forever(run); });
}

int disagreeing(Run& run) {
  return report(run, [&] {
    std::vector<std::byte> all(1000u * static_cast<unsigned>(run.comm().world_size()));
    const std::size_t mine = run.comm().rank() == 1 ? 10 : 20;
    run.comm().all_gather_host(
        std::span(all).first(mine),
        std::span(all).first(mine * static_cast<unsigned>(run.comm().world_size())));
    wait_for_failure(run);
  });
}

// The last rank goes on alone for longer than the timeout; the others wait for it, and all end
// well.
int late(Run& run) {
  if (run.comm().rank() == 1) std::this_thread::sleep_for(kShortTimeout * 3 / 2);
  return EXIT_SUCCESS;
}

int play(const std::string& role, std::int64_t piece_bytes) {
  const std::map<std::string, std::function<int(Run&)>> roles = {
      {"conformance", conformance},
      {"stopped", [](Run& run) { return signalled(run, SIGSTOP, reduce_forever); }},
      {"stopped-idle", [](Run& run) { return signalled(run, SIGSTOP, wait_for_failure); }},
      {"killed", [](Run& run) { return signalled(run, SIGKILL, reduce_forever); }},
      {"absent", absent},
      {"failing", failing},
      {"unwinding", unwinding},
      {"disagreeing", disagreeing},
      {"late", late},
      {"idle", [](Run&) { return EXIT_SUCCESS; }},
  };
  try {
    Run run;
    const MpiOptions options{
        .timeout = role == "conformance" ? std::chrono::milliseconds(60000) : kShortTimeout,
        .piece_bytes = piece_bytes};
    run.rank = std::make_unique<ConformanceRank>(make_mpi_communicator(options, run.failure),
                                                 on_cpu(run.failure));
    return roles.at(role)(run);
  } catch (const Error& error) {
    std::printf("error: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

// ---- Tests ----------------------------------------------------------------------------------

class MpiCommunicator : public RankTest {};

TEST_F(MpiCommunicator, ConformsWithOneToFourRanks) {
  for (int ranks = 1; ranks <= 4; ++ranks) expect_success(launch(ranks, "conformance"));
}

TEST_F(MpiCommunicator, ConformsWithPiecesLargerThanTheData) {
  expect_success(launch(3, "conformance", MpiOptions{}.piece_bytes));
}

TEST_F(MpiCommunicator, StoppedRankIsNamedByTheOthers) {
  const Outcome outcome = launch(3, "stopped");
  expect_end_with(outcome, "reports: rank 1 has not answered for ");
  expect_end_with(outcome, "(--comm-timeout 2 s) in reduce-scatter");
}

TEST_F(MpiCommunicator, StoppedRankIsNamedWhileNoCollectiveIsUnderWay) {
  const Outcome outcome = launch(3, "stopped-idle");
  expect_end_with(outcome, "reports: rank 1 has not answered for ");
  expect_end_with(outcome, "between collectives");
}

TEST_F(MpiCommunicator, KilledRankEndsTheRun) { expect_end_with(launch(3, "killed"), "rank 1"); }

TEST_F(MpiCommunicator, RankThatAnswersButTakesNoPartIsNamed) {
  expect_end_with(launch(3, "absent"), "for rank 1, which answers but did not take part");
}

TEST_F(MpiCommunicator, FailureOfThisRankEndsItsWaits) {
  expect_end_with(launch(2, "failing"), "rank 1 reports: the drive is gone");
}

TEST_F(MpiCommunicator, RankThatUnwindsWaitsForNobody) {
  expect_end_with(launch(3, "unwinding"), "error: no such file");
}

TEST_F(MpiCommunicator, RanksThatDisagreeAreTold) {
  expect_end_with(launch(2, "disagreeing"), "start all ranks with the same program and options");
}

TEST_F(MpiCommunicator, RanksPartTogether) { expect_success(launch(2, "late")); }

}  // namespace
}  // namespace strata::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3) return strata::comm::play(argv[1], std::stoll(argv[2]));
  // The conformance tests are for the ranks.
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "-CommunicatorConformance.*");
  return RUN_ALL_TESTS();
}
