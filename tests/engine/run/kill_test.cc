// kill -9 at random moments: the run goes on from a commit each time, and at its end the log and
// the weights are those of a run that nothing happened to, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "offload/store/store_files.h"
#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::steady_clock;
using test::Process;
using test::ProcessResult;

constexpr int kKills = 9;  // of each of the six runs below
constexpr int kSteps = 40;
constexpr std::chrono::seconds kMpirunEnds{5};

struct Scenario {
  const char* name;
  int ranks;
  Words options;
  // Each start takes the next of these: where they differ in the directory, the state moves.
  std::vector<Words> starts = {{}};
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

bool ends_soon(pid_t pid) {
  const auto deadline = steady_clock::now() + kMpirunEnds;
  siginfo_t ended{};
  while (::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class Kill : public DurableRuns, public ::testing::WithParamInterface<Scenario> {
 protected:
  Kill() : DurableRuns(kSteps) {
    for (const char* drive : {"a", "b"}) folder_.make_folder(drive);
  }

  // Each run has copies of its own.
  static Words options_of(const std::string& run) {
    Words options = GetParam().options;
    std::ranges::replace(options, std::string("copies"), run + ".copies");
    return options;
  }

  // Starts the run, or goes on with it, and kills its ranks or one of them, unless it ends before.
  ProcessResult killed(const std::string& run, double seconds, int start) {
    const Scenario& scenario = GetParam();
    // How many seconds mpirun leaves a rank to end in, after SIGTERM, when another has died.
    setenv("OMPI_MCA_odls_base_sigkill_timeout", start % 3 == 0 ? "1" : "0", 1);
    const Words& more = scenario.starts[static_cast<std::size_t>(start) % scenario.starts.size()];
    Process process(command(run, options_of(run) + more + Words{"--resume"}, scenario.ranks),
                    folder_.path());
    std::this_thread::sleep_for(duration<double>(seconds));
    if (scenario.ranks == 1) {
      ::kill(process.pid(), SIGKILL);
    } else {
      std::vector<pid_t> ranks = children_of(process);
      if (!ranks.empty() && start % 2 == 0) ranks = {ranks[random_() % ranks.size()]};
      for (const pid_t rank : ranks) ::kill(rank, SIGKILL);  // mpirun ends by itself then
      // But for Open MPI's when a rank dies while it joins: it may fail itself, or wait for ever.
      if (!ends_soon(process.pid())) {
        for (const pid_t rank : children_of(process)) ::kill(rank, SIGKILL);
        ::kill(process.pid(), SIGKILL);
      }
    }
    return process.wait();
  }

  void expect_like_the_whole_run(const std::string& run) const {
    EXPECT_EQ(results_of(run), results_of("whole"));
    EXPECT_TRUE(weights_of(run) == whole_weights_);
    const ProcessResult verified = strata({"verify", run});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }

  void expect_beginning_of_the_whole_run(const Results& results) const {
    const Results whole = results_of("whole");
    ASSERT_LE(results.size(), whole.size());
    EXPECT_EQ(results, Results(whole.begin(), whole.begin() + std::ssize(results)));
  }

  // After `strata gc --force`: what killed starts have left is gone, what is a run's is not.
  void expect_only_stores_of(const std::vector<std::string>& runs) const {
    std::set<std::string> expected, found;
    Words gc = {"gc", "--force", "a", "b"};
    for (const std::string& run : runs) {
      gc.push_back(run);
      const StorePointer pointer = read_store_pointer(path(run)).value();
      for (int rank = 0; rank < pointer.world_size(); ++rank) {
        const std::string name = store::store_file_name({pointer.run_id, rank, 0, ""});
        for (const std::string& directory :
             pointer.ranks[static_cast<std::size_t>(rank)].directories) {
          expected.insert(directory + "/" + name);
        }
      }
    }
    const ProcessResult collected = strata(gc);
    EXPECT_EQ(collected.exit_code, 0) << collected.err;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".store") found.insert(entry.path());
    }
    EXPECT_EQ(found, expected);
  }

  // Each of them is whole, or not there.
  void expect_whole_copies(const std::string& folder) const {
    EXPECT_FALSE(fs::is_empty(path(folder)));
    for (const auto& entry : fs::directory_iterator(path(folder))) {
      const ProcessResult verified = strata({"verify", entry.path()});
      EXPECT_EQ(verified.exit_code, 0) << entry.path() << verified.out << verified.err;
    }
  }

  std::mt19937 random_{static_cast<std::uint32_t>(
      ::testing::UnitTest::GetInstance()->random_seed())};  // --gtest_random_seed
  std::string whole_weights_;
};

TEST_P(Kill, AtRandomMoments) {
  const Scenario& scenario = GetParam();
  if (scenario.ranks > 1 && !obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  const auto begin = steady_clock::now();
  const ProcessResult whole =
      train("whole", options_of("whole") + scenario.starts.front(), scenario.ranks);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const double whole_s = duration<double>(steady_clock::now() - begin).count();
  whole_weights_ = weights_of("whole");

  std::vector<std::string> runs = {"whole", "run1"};
  std::string moments;
  for (int kills = 0, start = 0; kills < kKills; ++start) {
    const double seconds = std::uniform_real_distribution(0.0, whole_s)(random_);
    moments += fmt::format(" {:.3f} s", seconds);
    const std::string& run = runs.back();
    SCOPED_TRACE(fmt::format("{}, killed after{}", run, moments));
    const ProcessResult result = killed(run, seconds, start);
    expect_beginning_of_the_whole_run(logged(run));
    if (result.exit_code == 0) {  // complete before the kill came
      expect_like_the_whole_run(run);
      runs.push_back(fmt::format("run{}", runs.size()));
    } else {
      // Nothing but the kill ended it: mpirun passes on how a rank ends by itself.
      if (result.exit_code != -1 || scenario.ranks == 1) {
        EXPECT_EQ(result.exit_code, scenario.ranks == 1 ? -1 : 128 + SIGKILL) << result.err;
      }
      ++kills;
    }
  }
  SCOPED_TRACE(fmt::format("{}, killed after{}", runs.back(), moments));
  const ProcessResult rest =
      train(runs.back(), options_of(runs.back()) + scenario.starts.front() + Words{"--resume"},
            scenario.ranks);
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  expect_only_stores_of(runs);
  expect_like_the_whole_run(runs.back());
  for (const std::string& run : runs) {
    if (fs::exists(path(run + ".copies"))) expect_whole_copies(run + ".copies");
  }
}

const Words kInBackward = {"--clip-norm", "0"};
const Words kTwoDrives = {"--place", "all=nvme", "--nvme", "a=1GB/s,b=2GB/s"};

INSTANTIATE_TEST_SUITE_P(
    Runs, Kill,
    ::testing::Values(
        Scenario{"Deferred", 1, {"--place", "moments=nvme", "--checkpoint-every", "1"}},
        Scenario{"InBackwardOnHost", 1,
                 kInBackward + Words{"--checkpoint-every", "2", "--checkpoint-to", "copies"}},
        Scenario{"TwoDrives", 1, kInBackward + kTwoDrives + Words{"--checkpoint-every", "3"}},
        Scenario{"StateThatMoves",
                 1,
                 {"--checkpoint-every", "2"},
                 {{"--nvme", "a"}, {"--nvme", "b", "--place", "all=nvme"}}},
        Scenario{"TwoRanksDeferredOnHost", 2, {"--checkpoint-every", "3"}},
        Scenario{"TwoRanksInBackward", 2,
                 kInBackward + kTwoDrives + Words{"--checkpoint-every", "1"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::engine
