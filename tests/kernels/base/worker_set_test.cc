#include "kernels/base/worker_set.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/machine.h"
#include "tests/support/allocation_count.h"

namespace strata {
namespace {

// Fails if two tiles that run at once are given one worker index, or one out of range.
class ScratchCheck {
 public:
  explicit ScratchCheck(const WorkerSet& workers)
      : in_use_(static_cast<std::size_t>(workers.worker_slots())) {}

  template <typename Work>
  void hold(int worker, const Work& work) {
    if (worker < 0 || worker >= static_cast<int>(in_use_.size())) {
      ++violations_;
      return;
    }
    auto& mine = in_use_[static_cast<std::size_t>(worker)];
    if (mine.exchange(true)) ++violations_;
    work();
    mine.store(false);
  }
  int violations() const { return violations_; }

 private:
  std::vector<std::atomic<bool>> in_use_;
  std::atomic<int> violations_{0};
};

class WorkerSets : public testing::TestWithParam<int> {};

TEST_P(WorkerSets, RunsEveryTileOnce) {
  WorkerSet workers(GetParam());
  EXPECT_EQ(workers.threads(), GetParam());
  for (const std::int64_t tiles : {0, 1, 2, 3, 7, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
    workers.parallel_for(tiles,
                         [&](std::int64_t tile, int) { ++runs[static_cast<std::size_t>(tile)]; });
    for (const auto& count : runs) ASSERT_EQ(count, 1);
  }
}

TEST_P(WorkerSets, ConcurrentCallersShareWithoutSharingScratch) {
  WorkerSet workers(GetParam());
  ScratchCheck scratch(workers);
  std::atomic<std::int64_t> tiles_run{0};
  std::atomic<int> running{0};
  std::atomic<int> running_max{0};
  const auto body = [&](std::int64_t, int worker) {
    scratch.hold(worker, [&] {
      const int now = ++running;
      for (int seen = running_max; seen < now && !running_max.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      ++tiles_run;
      --running;
    });
  };
  constexpr int kCallers = 3;
  constexpr int kJobs = 300;
  constexpr int kTiles = 5;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < kJobs; ++job) workers.parallel_for(kTiles, body);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(tiles_run, kCallers * kJobs * kTiles);
  EXPECT_EQ(scratch.violations(), 0);
  EXPECT_LE(running_max, GetParam()) << "callers and workers together outnumber the set";
}

TEST_P(WorkerSets, RethrowsTheFirstExceptionAndStaysUsable) {
  WorkerSet workers(GetParam());
  const auto failing = [](std::int64_t tile, int) {
    if (tile == 3) throw std::runtime_error("tile 3");
  };
  for (int round = 0; round < 20; ++round) {
    try {
      workers.parallel_for(100, failing);
      FAIL() << "the exception was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "tile 3");
    }
  }
  std::atomic<int> runs{0};
  workers.parallel_for(10, [&](std::int64_t, int) { ++runs; });
  EXPECT_EQ(runs, 10);
}

TEST_P(WorkerSets, AllocatesNothingOnceWarm) {
  WorkerSet workers(GetParam());
  std::atomic<std::int64_t> sum{0};
  const auto body = [&](std::int64_t tile, int) { sum += tile; };
  for (int job = 0; job < 50; ++job) workers.parallel_for(64, body);
  const std::int64_t before = test::allocation_count;
  for (int job = 0; job < 200; ++job) workers.parallel_for(64, body);
  EXPECT_EQ(test::allocation_count - before, 0);
}

TEST_P(WorkerSets, AWriteInATileIsSeenAfterTheCall) {
  WorkerSet workers(GetParam());
  std::vector<std::int64_t> plain(64);
  for (int job = 1; job <= 50; ++job) {
    workers.parallel_for(
        64, [&](std::int64_t tile, int) { plain[static_cast<std::size_t>(tile)] += tile; });
    for (std::int64_t tile = 0; tile < 64; ++tile) {
      ASSERT_EQ(plain[static_cast<std::size_t>(tile)], tile * job);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, WorkerSets, testing::Values(1, 2, 4));

TEST(WorkerSet, OneThreadRunsTilesInOrderOnTheCaller) {
  WorkerSet workers(1);
  EXPECT_EQ(workers.worker_slots(), 1);
  std::vector<std::int64_t> order;
  workers.parallel_for(4, [&, caller = std::this_thread::get_id()](std::int64_t tile, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    order.push_back(tile);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(WorkerSet, TwoThreadsWorkAtOnce) {
  WorkerSet workers(2);
  // Each tile waits for the other to start: one thread alone would never return.
  std::atomic<int> started{0};
  workers.parallel_for(2, [&](std::int64_t, int) {
    ++started;
    while (started < 2) std::this_thread::yield();
  });
  EXPECT_EQ(started, 2);
}

TEST(WorkerSet, ASmallSetDoesNotHoldBackALargerOne) {
  WorkerSet small(1);
  WorkerSet middle(2);
  WorkerSet large(4);
  std::atomic<int> started{0};
  large.parallel_for(4, [&](std::int64_t, int) {
    ++started;
    while (started < 4) std::this_thread::yield();
  });
  EXPECT_EQ(started, 4);
}

TEST(WorkerSet, BindsWorkersAndLeavesTheCallerAlone) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one processor: every mask is the same";
  WorkerSet workers(2, {cpus[0], cpus[1]});
  std::atomic<int> started{0};
  std::atomic<int> bound{0};
  workers.parallel_for(2, [&, caller = std::this_thread::get_id()](std::int64_t, int worker) {
    ++started;
    while (started < 2) std::this_thread::yield();
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
    if (std::this_thread::get_id() == caller) {
      EXPECT_EQ(CPU_COUNT(&mask), static_cast<int>(cpus.size()));
    } else {
      EXPECT_EQ(CPU_COUNT(&mask), 1);
      EXPECT_TRUE(CPU_ISSET(cpus[static_cast<std::size_t>(worker)], &mask));
      ++bound;
    }
  });
  EXPECT_EQ(bound, 1);
}

}  // namespace
}  // namespace strata
