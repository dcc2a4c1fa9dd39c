// A folder of each family as transformers saves it: transformers' loss, and every bit back in an
// export, from one rank or several.
#include "tests/engine/run/pretrained_runs.h"

namespace strata::engine {
namespace {

class PretrainedFamilies : public PretrainedRuns,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  PretrainedFamilies() : PretrainedRuns(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Each, PretrainedFamilies,
                         ::testing::Values("gpt2", "llama", "mistral", "qwen2", "qwen3"),
                         [](const auto& family) { return family.param; });

// Both are means of 144 terms of about 6 from f32 logits, whose rounding is some 2^-24 of them
// each: 1e-5 is that times the depth of the network, with room.
TEST_P(PretrainedFamilies, TheLossIsThatOfTransformers) {
  complete("run", words(golden_folder_) + Words{"--precision", "f32"});
  EXPECT_NEAR(first_validation_loss("run"), golden_["loss"], 1e-5);
}

// To nearest, ties away from zero, as bf16.
std::string rounded(const std::string& f32) {
  std::string out;
  for (std::size_t i = 0; i < f32.size(); i += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, f32.data() + i, 4);
    const auto half = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    out.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

// A step at a rate of 0 changes no master.
TEST_P(PretrainedFamilies, WhatComesInGoesOutAgain) {
  const Words still = {"--lr", "0", "--place", "weights=nvme,moments=nvme"};
  const int ranks_max = obstacle_to_ranks().empty() ? 2 : 1;
  const auto original = tensors_of(golden_folder_);
  ASSERT_FALSE(original.empty());
  std::map<std::string, std::string> narrow;
  for (const auto& [key, bytes] : original) {
    std::string renamed = key;
    narrow[renamed.replace(renamed.find(" F32 "), 5, " BF16 ")] = rounded(bytes);
  }
  for (const char* const precision : {"bf16", "f32"}) {
    for (int ranks = 1; ranks <= ranks_max; ++ranks) {
      const std::string run = fmt::format("{}-{}", precision, ranks);
      complete(run, words(golden_folder_) + still + Words{"--precision", precision}, ranks);
      weights_of(run);
      EXPECT_EQ(tensors_of(path(run + ".exported")), original) << run;
      EXPECT_EQ(strata({"export", run, run + ".bf16", "--export-dtype", "bf16"}).exit_code, 0);
      EXPECT_EQ(tensors_of(path(run + ".bf16")), narrow) << run;
    }
  }
}

}  // namespace
}  // namespace strata::engine
