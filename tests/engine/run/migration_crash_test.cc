// A run that goes on in another directory, and is killed before each call that changes files, in
// turn: whatever it had done by then, it goes on from the step that was committed, and to the same
// end.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using test::ProcessResult;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr int kSteps = 60;
constexpr int kCrashed = 86;  // crash_at_call.cc

class MigrationCrash : public DurableRuns {
 protected:
  MigrationCrash() : DurableRuns(kSteps) {
    for (const char* drive : {"old", "new"}) folder_.make_folder(drive);
  }

  // Flushes are calls of the engine "threads".
  Words small(const Words& more) const {
    return command("run", Words{"--model", "gpt2:layers=1,hidden=16,heads=2,context=16",
                                "--checkpoint-every", "1000", "--io-engine", "threads"} +
                              more);
  }
  ProcessResult go_on(const Words& before, const Words& more) const {
    return test::run_process(before + small(more + Words{"--resume", "--json"}), folder_.path());
  }

  // The folders of the run are copies of what they were; under their names, which store.json has.
  void save() const {
    for (const char* name : {"run", "old", "new"}) {
      fs::copy(path(name), path("saved/") + name, fs::copy_options::recursive);
    }
  }
  void restore() const {
    for (const char* name : {"run", "old", "new"}) {
      fs::remove_all(path(name));
      fs::copy(path("saved/") + name, path(name), fs::copy_options::recursive);
    }
  }

  static int first_step(const ProcessResult& result) {
    for (const auto& line : test::json_lines(result.out)) {
      if (line.contains("step") && line.contains("loss")) return line["step"];
    }
    return 0;
  }
};

TEST_F(MigrationCrash, LosesNoCommitAtAnyCall) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has to come first in LD_PRELOAD";
  const Words in_old = {"--nvme", "old=1GB/s"};
  const Words in_new = {"--nvme", "new=1GB/s"};
  const auto process = started(small(in_old), "run");
  ASSERT_EQ(end_of(*process, SIGUSR1).exit_code, 75);
  const Results committed = logged("run");
  const int step = static_cast<int>(committed.back().front());
  ASSERT_LT(step, kSteps);
  folder_.make_folder("saved");
  save();
  ASSERT_EQ(go_on({}, in_new).exit_code, 0);
  const Results expected = results_of("run");

  for (int call = 0;; ++call) {
    SCOPED_TRACE("crash at call " + std::to_string(call));
    restore();
    const ProcessResult crashed = go_on({"env", std::string("LD_PRELOAD=") + STRATA_CRASH_AT_CALL,
                                         "STRATA_CRASH_AT=" + std::to_string(call)},
                                        in_new);
    if (crashed.exit_code == 0) {
      EXPECT_GT(call, 20);  // the calls that a move takes, at least
      break;
    }
    ASSERT_EQ(crashed.exit_code, kCrashed) << crashed.err;
    const ProcessResult rest = test::run_process(
        {STRATA_BINARY, "train", "--run", "run", "--resume", "--json"}, folder_.path());
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    const int first = first_step(rest);
    ASSERT_TRUE(first > step || first == 0) << "from step " << first;  // 0: nothing was left
    ASSERT_EQ(results_of("run"), expected);
  }
}

}  // namespace
}  // namespace strata::engine
