// Runs that have a folder, as a user starts, stops, kills and goes on with them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "offload/store/store_files.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Step, loss, learning rate and norm of each step: bit-equal runs share them.
using Results = std::vector<std::vector<double>>;

class DurableRuns : public ::testing::Test {
 protected:
  explicit DurableRuns(int steps, int text_bytes = 8'000) : steps_(steps) {
    test::write_text(path("text.txt"), text_bytes);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  // Why this build or this machine cannot run several ranks; "" if it can.
  static const std::string& obstacle_to_ranks() {
    static const std::string obstacle = [] {
      setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
      setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
      // In sanitizer builds: OpenMPI 4.1 leaks at exit and takes its TCP locks in two orders.
      setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
      setenv("TSAN_OPTIONS", "detect_deadlocks=0", 0);
      const Words plan = mpirun(2) + Words{STRATA_BINARY, "plan", "--model", "gpt2-124m"};
      const test::ProcessResult result = test::run_process(plan, "/");
      return result.exit_code == 0 ? "" : "no mpirun here, or a build without MPI: " + result.err;
    }();
    return obstacle;
  }
  static Words mpirun(int ranks) {
    return ranks == 1 ? Words{} : Words{"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
  }

  // Later words overrule earlier ones.
  Words command(const std::string& run, const Words& more, int ranks = 1) const {
    return mpirun(ranks) + Words{STRATA_BINARY,     "train",
                                 "--model",         "gpt2:layers=2,hidden=64,heads=2,context=32",
                                 "--data",          "text.txt",
                                 "--steps",         std::to_string(steps_),
                                 "--global-batch",  "2",
                                 "--warmup",        "10",
                                 "--device-memory", "32MiB",
                                 "--host-memory",   "64MiB",
                                 "--matmul-dtype",  "f32",
                                 "--threads",       "1",
                                 "--run",           run} +
           more;
  }
  test::ProcessResult train(const std::string& run, const Words& more, int ranks = 1) const {
    return test::run_process(command(run, more, ranks), folder_.path());
  }
  // Another command of the program.
  test::ProcessResult strata(const Words& words) const {
    return test::run_process(Words{STRATA_BINARY} + words, folder_.path());
  }

  void complete(const std::string& run, const Words& more, int ranks = 1) const {
    const test::ProcessResult result = train(run, more, ranks);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  // In one line, with these parts, at once, and leaving the run as it is.
  void expect_refused(const std::string& run, const Words& more, int exit_code,
                      const Words& parts) const {
    const std::string log = test::contents_of(path(run + "/log.jsonl"));
    const std::string options = test::contents_of(path(run + "/options.json"));
    const test::ProcessResult result = train(run, more);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_PRED2(test::mentions, result.err, part);
    EXPECT_EQ(test::contents_of(path(run + "/log.jsonl")), log);
    EXPECT_EQ(test::contents_of(path(run + "/options.json")), options);
  }
  void expect_intact(const std::string& run) const {
    const test::ProcessResult verified = strata({"verify", run});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }

  // The file of a rank, which is in `folder`.
  std::string store_file(const std::string& run, const std::string& folder, int rank = 0) const {
    const std::string id = read_store_pointer(path(run)).value().run_id;
    return path(folder + "/" + store::store_file_name({id, rank, rank + 1, ""}));
  }

  // A run that has logged some steps.
  std::unique_ptr<test::Process> started(const Words& words, const std::string& run,
                                         int step = 5) const {
    auto process = std::make_unique<test::Process>(words, folder_.path());
    wait_for_lines(run, step);
    return process;
  }
  void wait_for_lines(const std::string& run, int lines) const {
    const auto log = [&] { return test::contents_of(path(run + "/log.jsonl")); };
    for (int i = 0; i < 20'000 && std::ranges::count(log(), '\n') < lines; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  static test::ProcessResult end_of(test::Process& process, int signal) {
    EXPECT_EQ(::kill(process.pid(), signal), 0);
    return process.wait();
  }

  // The ranks of an mpirun, in order.
  static std::vector<pid_t> children_of(const test::Process& process) {
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", process.pid()));
    return {std::istream_iterator<pid_t>(file), {}};
  }

  // Of every step, in the order of the log; whoever is killed may leave the beginning of a line.
  Results logged(const std::string& run) const {
    std::string text = test::contents_of(path(run + "/log.jsonl"));
    text.resize(text.rfind('\n') + 1);
    Results results;
    for (const auto& line : test::json_lines(text)) {
      if (line["loss"].is_null()) continue;  // the evaluation before the first step
      results.push_back({line["step"], line["loss"], line["lr"], line["grad_norm"]});
    }
    return results;
  }
  Results results_of(const std::string& run) const {
    Results results = logged(run);
    EXPECT_EQ(results.size(), steps_);
    return results;
  }
  // The trained weights, as a file has them.
  std::string weights_of(const std::string& run) const {
    const auto exported = strata({"export", run, run + ".exported", "--export-dtype", "f32"});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    return test::contents_of(path(run + ".exported/model.safetensors"));
  }

  test::TemporaryFolder folder_;
  const int steps_;
};

}  // namespace strata::engine
