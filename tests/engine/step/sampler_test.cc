// Samples of a run: a function of the seed, the step and the weights, whatever the tiers; they go
// on where a sequence is full.
#include "engine/step/sampler.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/engine_run.h"

namespace strata::test {
namespace {

using engine::Options;
using engine::Sampler;

constexpr std::int64_t kSeqLen = 16;
constexpr std::int64_t kTokens = 50;  // more than a sequence

class Samples : public ::testing::Test {
 protected:
  Samples() { write_text(folder_.path("text.txt"), 4000); }

  Options options(const std::string& place) const {
    Options options = small_run(folder_, "gpt2:layers=2,hidden=32,heads=2,context=16", 32 * kMiB);
    options.place = place;
    options.global_batch = 2;
    options.sample_tokens = kTokens;
    options.matmul_dtype = "bf16";
    options.threads = 2;
    return options;
  }
  static std::string draw(EngineRun& run, std::int64_t step, const std::string& prompt = "tier ") {
    return Sampler(run.trainer(), 256, kSeqLen, 1337).draw(prompt, kTokens, step);
  }

  TemporaryFolder folder_;
};

TEST_F(Samples, DependOnTheStepAndTheWeightsAlone) {
  EngineRun run(options("weights=device"));
  const std::string first = draw(run, 1);
  EXPECT_TRUE(first.starts_with("tier ")) << first;
  EXPECT_EQ(first.size(), 5 + kTokens);
  const std::string second = draw(run, 2);
  EXPECT_NE(second, first);
  EXPECT_EQ(draw(run, 1), first);
  run.step();
  EXPECT_NE(draw(run, 1), first);
}

TEST_F(Samples, AreTheSameFromEveryTier) {
  EngineRun on_device(options("weights=device"));
  on_device.step();
  const std::string expected = draw(on_device, 1);
  for (const char* const place : {"weights=host", "weights=nvme"}) {
    EngineRun run(options(place));
    run.step();  // its update is pending: the sample applies it
    EXPECT_EQ(draw(run, 1), expected) << place;
  }
}

TEST_F(Samples, GoOnFromTheEndOfALongPrompt) {
  EngineRun run(options("weights=device"));
  const std::string end = "its weig";  // the last half of a sequence
  const std::string text = draw(run, 1, "some text before " + end);
  EXPECT_TRUE(text.ends_with(draw(run, 1, end).substr(end.size())));
}

}  // namespace
}  // namespace strata::test
