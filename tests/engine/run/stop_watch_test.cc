// What signals ask of a run, and when they end it.
#include "engine/run/stop_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using namespace std::chrono_literals;
using offload::Durability;
using test::mentions;

constexpr std::chrono::duration<double> kLong = 1h;

void raise_here(int signal) { ASSERT_EQ(::kill(::getpid(), signal), 0); }

template <typename Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// A run with its watch.
struct WatchedRun {
  explicit WatchedRun(Durability durability, std::chrono::duration<double> stop_within = kLong)
      : watch({durability, "runs/x", stop_within,
               [this](std::string_view text) {
                 const std::lock_guard lock(mutex);
                 said += std::string(text) + "\n";
               }},
              requests, failure) {}

  std::string all_said() {
    const std::lock_guard lock(mutex);
    return said;
  }
  bool has_signal() const { return mentions(watch.stopped_text(0), " by SIG"); }

  // What ended it.
  struct End {
    std::string what;
    int exit_code = 0;
  };
  End end() {
    EXPECT_TRUE(eventually([&] { return failure.failed(); }));
    try {
      failure.check();
    } catch (const Interrupted& interrupted) {
      return {interrupted.what(), interrupted.exit_code()};
    }
    return {};
  }

  StepRequests requests{0};
  FailureLatch failure;
  std::mutex mutex;
  std::string said;
  StopWatch watch;
};

TEST(StopWatch, StopSignalsAskForTheEndOfTheStep) {
  for (const auto& [signal, name] :
       {std::pair(SIGHUP, "SIGHUP"), std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM"),
        std::pair(SIGUSR1, "SIGUSR1")}) {
    for (const Durability durability : {Durability::clean_mark, Durability::commits}) {
      WatchedRun run(durability);
      run.watch.step_begins(7);
      raise_here(signal);
      EXPECT_TRUE(eventually([&] { return run.requests == kStopRequest; })) << name;
      run.watch.step_ended();
      run.watch.run_ends();
      EXPECT_EQ(run.watch.stopped_text(7),
                std::string("stopped by ") + name +
                    " after step 7; resume with strata train --run runs/x --resume");
      EXPECT_FALSE(run.failure.failed());
    }
  }
}

bool takes(int signal) {
  sigset_t blocked;
  EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
  return ::sigismember(&blocked, signal) == 0;
}

// Nor does a thread that is started during the run.
TEST(StopWatch, TheThreadsOfTheRunTakeNoSignals) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) {
    {
      const WatchedRun run(Durability::commits);
      EXPECT_FALSE(takes(signal));
      std::thread([&] { EXPECT_FALSE(takes(signal)); }).join();
    }
    EXPECT_TRUE(takes(signal));
  }
}

TEST(StopWatch, Usr2AsksForACommitAndTheRunGoesOn) {
  WatchedRun run(Durability::commits);
  run.watch.step_begins(1);
  raise_here(SIGUSR2);
  EXPECT_TRUE(eventually([&] { return run.requests == kCommitRequest; }));
  raise_here(SIGTERM);
  EXPECT_TRUE(eventually([&] { return run.requests == (kCommitRequest | kStopRequest); }));
  EXPECT_FALSE(run.failure.failed());
}

TEST(StopWatch, WhereThereAreNoCommitsUsr2SaysSoOnce) {
  for (const auto& [durability, why] :
       {std::pair(Durability::none, "there is no --run"),
        std::pair(Durability::clean_mark, "--checkpoint-every 0")}) {
    WatchedRun run(durability);
    run.watch.step_begins(1);
    raise_here(SIGUSR2);
    ASSERT_TRUE(eventually([&] { return mentions(run.all_said(), why); }));
    const std::string once = run.all_said();
    raise_here(SIGUSR2);
    raise_here(SIGTERM);  // handled after it
    EXPECT_TRUE(eventually([&] { return run.has_signal(); }));
    EXPECT_EQ(run.all_said().substr(0, once.size()), once);
    EXPECT_FALSE(mentions(run.all_said().substr(once.size()), "SIGUSR2"));
    EXPECT_EQ(run.requests & kCommitRequest, 0u);
  }
}

TEST(StopWatch, AStepThatTakesTooLongIsDroppedForTheLastCommit) {
  WatchedRun run(Durability::commits, 10ms);
  run.watch.kept();
  run.watch.committed(50);
  run.watch.step_begins(51);
  raise_here(SIGTERM);
  const WatchedRun::End end = run.end();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_EQ(end.what,
            "stopped by SIGTERM in the middle of step 51, which would take longer than "
            "--stop-within; resume from step 50 with strata train --run runs/x --resume");
  run.watch.committed(51);  // by the step that was dropped
  EXPECT_PRED2(mentions, run.watch.drop_text(), "; resume from step 51 with strata train");
}

TEST(StopWatch, WhatIsDeletedIsNotToBeResumed) {
  WatchedRun run(Durability::commits, 10ms);
  run.watch.step_begins(1);
  run.watch.committed(0);  // of where it began
  raise_here(SIGTERM);
  const WatchedRun::End end = run.end();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_PRED2(mentions, end.what, "; nothing is kept of it: start it again as it was started");
}

TEST(StopWatch, WhatFollowsAStepIsGivenUpToo) {
  WatchedRun run(Durability::commits, 10ms);
  run.watch.step_begins(1);
  run.watch.kept();
  run.watch.step_ended();  // an evaluation, say
  raise_here(SIGUSR1);
  const WatchedRun::End end = run.end();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_PRED2(mentions, end.what, "after step 1");
  EXPECT_PRED2(mentions, end.what, "resume from the start with");
}

TEST(StopWatch, ARunWithOneSlotIsNeverDropped) {
  WatchedRun run(Durability::clean_mark, 0ms);
  run.watch.step_begins(1);
  raise_here(SIGTERM);
  ASSERT_TRUE(eventually([&] { return mentions(run.all_said(), "--checkpoint-every 0"); }));
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(run.failure.failed());
  EXPECT_EQ(run.requests, kStopRequest);
}

TEST(StopWatch, TheLastCommitIsNotCutShort) {
  WatchedRun run(Durability::commits, 10ms);
  run.watch.step_begins(1);
  run.watch.step_ended();
  run.watch.run_ends();
  raise_here(SIGTERM);
  EXPECT_TRUE(eventually([&] { return run.has_signal(); }));
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(run.failure.failed());
}

TEST(StopWatch, LastCopiesGoOnAndTheUserKnows) {
  for (const bool asked_before : {false, true}) {
    WatchedRun run(Durability::commits, 10ms);
    run.watch.run_ends();
    if (!asked_before) run.watch.copies_begin();
    raise_here(SIGINT);
    ASSERT_TRUE(eventually([&] { return run.has_signal(); }));
    if (asked_before) run.watch.copies_begin();
    EXPECT_TRUE(eventually([&] { return mentions(run.all_said(), "once more to give them up"); }));
    EXPECT_FALSE(run.failure.failed());
  }
}

TEST(StopWatch, WhileItsStoreIsOpenedNobodyKnowsItsCommit) {
  WatchedRun run(Durability::commits);
  run.watch.kept();
  raise_here(SIGINT);
  EXPECT_PRED2(mentions, run.end().what, "before its first step; resume with strata train --run");
}

TEST(StopWatch, BeforeTheFirstStepThereIsNothingToWaitFor) {
  for (const Durability durability : {Durability::clean_mark, Durability::commits}) {
    WatchedRun run(durability);
    run.watch.kept();
    run.watch.committed(8);
    raise_here(SIGINT);
    const WatchedRun::End end = run.end();
    EXPECT_EQ(end.exit_code, 75);
    EXPECT_PRED2(mentions, end.what, "stopped by SIGINT before its first step");
    EXPECT_PRED2(mentions, end.what, "resume from step 8 with");
  }
}

TEST(StopWatch, ARunThatKeepsNothingEndsAtOnce) {
  for (const auto& [signal, name] : {std::pair(SIGHUP, "SIGHUP"), std::pair(SIGTERM, "SIGTERM"),
                                     std::pair(SIGUSR1, "SIGUSR1")}) {
    WatchedRun run(Durability::none);
    run.watch.step_begins(1);
    raise_here(signal);
    const WatchedRun::End end = run.end();
    EXPECT_EQ(end.exit_code, 128 + signal);
    EXPECT_EQ(end.what, std::string("interrupted by ") + name);
    EXPECT_EQ(run.requests, 0u);
  }
}

TEST(StopWatch, IgnoredSignalsStayIgnoredButForTheUsers) {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGUSR1, SIG_IGN);
  {
    WatchedRun run(Durability::commits);
    run.watch.step_begins(1);
    raise_here(SIGHUP);
    raise_here(SIGUSR1);
    EXPECT_TRUE(eventually([&] { return run.has_signal(); }));
    EXPECT_PRED2(mentions, run.watch.stopped_text(1), "by SIGUSR1");
  }
  EXPECT_EQ(::signal(SIGHUP, SIG_DFL), SIG_IGN);  // as before the watch
  EXPECT_EQ(::signal(SIGUSR1, SIG_DFL), SIG_IGN);
}

// `later`: from the first signal to the second.
void stop_twice(std::chrono::milliseconds later) {
  WatchedRun run(Durability::commits);
  run.watch.step_begins(1);
  ::kill(::getpid(), SIGUSR1);
  std::this_thread::sleep_for(later);
  ::kill(::getpid(), SIGTERM);
  std::this_thread::sleep_for(500ms);
  std::_Exit(run.failure.failed() ? 1 : 0);
}

TEST(StopWatchDeathTest, ASecondSignalKillsASecondLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_twice(0ms), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(stop_twice(1200ms), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace strata::engine
