// Which options a search may choose, of what was given.
#include "engine/tune/search_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/engine/tune/tiny_search.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::SearchSpace;
using engine::Variation;

SearchSpace space_of(const std::vector<std::string>& options,
                     Variation variation = Variation::as_options_say) {
  return engine::make_search_space(tiny_options(options), tiny_place(), variation);
}

TEST(SearchSpace, MemoryIsDividedWhereNoBudgetIsGiven) {
  const SearchSpace space = space_of({});
  EXPECT_EQ(space.budgets.size(), 7U);
  for (const engine::MemoryBudgets& budgets : space.budgets) {
    EXPECT_EQ(budgets.device_bytes + budgets.host_bytes, 256 * kMiB);
  }
  const SearchSpace device = space_of({"--device-memory", "56MiB"});
  ASSERT_EQ(device.budgets.size(), 1U);
  EXPECT_EQ(device.budgets.front().host_bytes, 200 * kMiB);
  const SearchSpace both = space_of({"--device-memory", "1GiB", "--host-memory", "2GiB"});
  ASSERT_EQ(both.budgets.size(), 1U);
  EXPECT_EQ(both.budgets.front().device_bytes, kGiB);
  EXPECT_EQ(both.budgets.front().host_bytes, 2 * kGiB);
}

TEST(SearchSpace, AutoIsNotGiven) {
  EXPECT_EQ(space_of({"--device-memory", "auto", "--host-memory", "auto"}).budgets.size(), 7U);
  EXPECT_EQ(space_of({"--activations", "auto"}).activations.size(), 3U);
}

TEST(SearchSpace, MicroBatchesLeaveNoPadding) {
  EXPECT_EQ(space_of({"--global-batch", "12"}).micro_batches,
            (std::vector<std::int64_t>{1, 2, 4, 12}));
  EXPECT_EQ(space_of({"--global-batch", "12", "--micro-batch", "5"}).micro_batches,
            std::vector<std::int64_t>{5});
  EXPECT_EQ(space_of({"--global-batch", "12"}, Variation::none).micro_batches,
            std::vector<std::int64_t>{1});
  EXPECT_EQ(space_of({"--global-batch", "12", "--vary", "pass"}).micro_batches,
            std::vector<std::int64_t>{1});
}

TEST(SearchSpace, PassesAreHalved) {
  using Passes = std::vector<std::optional<std::int64_t>>;
  EXPECT_EQ(space_of({"--global-batch", "8"}).passes(1), (Passes{std::nullopt, 4, 2, 1}));
  EXPECT_EQ(space_of({"--global-batch", "8"}).passes(8), (Passes{std::nullopt}));
  EXPECT_EQ(space_of({"--global-batch", "8", "--pass", "2"}).passes(1), Passes{2});
}

TEST(SearchSpace, PlacementsKeepTheKindsThatAreNamed) {
  EXPECT_EQ(space_of({}).placements.size(), 108U);  // four tiers of weights, three of three kinds
  EXPECT_EQ(space_of({"--precision", "f32"}).placements.size(), 36U);  // no remainder
  const SearchSpace some = space_of({"--place", "weights=device,moments=nvme"});
  EXPECT_EQ(some.placements.size(), 9U);
  for (const std::string& text : some.placements) {
    EXPECT_TRUE(text.starts_with("weights=device,moments=nvme")) << text;
  }
  EXPECT_EQ(space_of({"--place", "all=host"}).placements, std::vector<std::string>{"all=host"});
}

TEST(SearchSpace, FormatsAreChosenOnlyByName) {
  EXPECT_EQ(space_of({}).moments, std::vector<std::string>{"f32"});
  EXPECT_EQ(space_of({"--vary", "moments"}).moments.size(), 3U);
  EXPECT_EQ(space_of({"--vary", "moments", "--moments", "bf16"}).moments,
            std::vector<std::string>{"bf16"});
}

TEST(SearchSpace, TuneRefusesWhatItDoesNotKnow) {
  const auto error = [](const std::vector<std::string>& options) {
    return error_text<ConfigError>([&] { engine::check_tune_options(tiny_options(options)); });
  };
  EXPECT_TRUE(mentions(error({"--vary", "momets"}), "did you mean 'moments'"))
      << error({"--vary", "momets"});
  EXPECT_TRUE(mentions(error({"--plans", "0"}), "--plans is 0"));
}

}  // namespace
}  // namespace strata::test
