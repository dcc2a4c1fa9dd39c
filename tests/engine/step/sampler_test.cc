// Samples of a run: a function of the seed, the step and the weights, whatever the tiers; they go
// on where a sequence is full.
#include "engine/step/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {
namespace {

using engine::Options;
using engine::Sampler;
using Tokens = std::vector<std::int32_t>;

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
    options.matmul_dtype = forced_arithmetic("bf16");
    options.threads = 2;
    return options;
  }
  static Tokens draw(EngineRun& run, std::int64_t step, const std::string& prompt = "tier ",
                     const Tokens& end_tokens = {}) {
    const Tokens tokens(prompt.begin(), prompt.end());
    return Sampler(run.trainer(), kSeqLen, 1337, end_tokens).draw(tokens, kTokens, step);
  }

  TemporaryFolder folder_;
};

TEST_F(Samples, DependOnTheStepAndTheWeightsAlone) {
  EngineRun run(options("weights=device"));
  const Tokens first = draw(run, 1);
  EXPECT_EQ(first.size(), kTokens);
  EXPECT_NE(draw(run, 2), first);
  EXPECT_EQ(draw(run, 1), first);
  run.step();
  EXPECT_NE(draw(run, 1), first);
}

TEST_F(Samples, AreTheSameFromEveryTier) {
  EngineRun on_device(options("weights=device"));
  on_device.step();
  const Tokens expected = draw(on_device, 1);
  for (const char* const place : {"weights=host", "weights=nvme"}) {
    EngineRun run(options(place));
    run.step();  // its update is pending: the sample applies it
    EXPECT_EQ(draw(run, 1), expected) << place;
  }
}

TEST_F(Samples, GoOnFromTheEndOfALongPrompt) {
  EngineRun run(options("weights=device"));
  const std::string end = "its weig";  // the last half of a sequence
  EXPECT_EQ(draw(run, 1, "some text before " + end), draw(run, 1, end));
}

// Also where the token comes once the sample has gone on.
TEST_F(Samples, EndBeforeAnEndToken) {
  EngineRun run(options("weights=device"));
  const Tokens whole = draw(run, 1);
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{40}}) {
    const auto first = std::ranges::find(whole, whole[at]);
    EXPECT_EQ(draw(run, 1, "tier ", {whole[at]}), Tokens(whole.begin(), first));
  }
}

}  // namespace
}  // namespace strata::test
