// A step that fails while the commit of the one before it is made: the run ends as failures do, and
// goes on to the losses of a run that nothing happened to.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::ProcessResult;

class FailedStep : public DurableRuns {
 protected:
  FailedStep() : DurableRuns(60) {}
};

// Updates in backward are committed from the end of their step on, where the next one reads its
// data; everything in host memory has to be copied meanwhile.
TEST_F(FailedStep, DuringACommitLeavesTheRunResumable) {
  for (const char* clip_norm : {"0", "1"}) {
    SCOPED_TRACE(clip_norm);
    const Words options = {
        "--checkpoint-every", "1",       "--place", "all=host",
        "--clip-norm",        clip_norm, "--model", "gpt2:layers=4,hidden=128,heads=2,context=32"};
    const std::string whole = std::string("whole") + clip_norm;
    const std::string run = std::string("run") + clip_norm;
    ASSERT_EQ(train(whole, options).exit_code, 0);

    const auto process = started(command(run, options), run);
    std::filesystem::resize_file(path("text.txt"), 0);
    const ProcessResult failed = process->wait();
    test::write_text(path("text.txt"), 8'000);
    EXPECT_EQ(failed.exit_code, 1) << failed.err;
    EXPECT_PRED2(mentions, failed.err, "text.txt");

    const ProcessResult rest = train(run, options + Words{"--resume"});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_PRED2(mentions, rest.out, "goes on from step ");
    EXPECT_EQ(results_of(run), results_of(whole));
  }
}

}  // namespace
}  // namespace strata::engine
