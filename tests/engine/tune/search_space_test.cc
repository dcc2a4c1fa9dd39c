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

TEST(SearchSpace, ADeviceWithMemoryOfItsOwnSharesNone) {
  engine::SearchPlace place = tiny_place();
  place.device_bytes = 24 * kMiB;
  const auto budgets_of = [&](const std::vector<std::string>& options) {
    return engine::make_search_space(tiny_options(options), place, Variation::none).budgets;
  };
  ASSERT_EQ(budgets_of({}).size(), 1U);
  EXPECT_EQ(budgets_of({}).front().device_bytes, 24 * kMiB);
  EXPECT_EQ(budgets_of({}).front().host_bytes, 256 * kMiB);
  EXPECT_EQ(budgets_of({"--host-memory", "8MiB"}).front().host_bytes, 8 * kMiB);
  EXPECT_EQ(budgets_of({"--host-memory", "8MiB"}).front().device_bytes, 24 * kMiB);
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
  // Of a size that is refused later: no double of it is a number.
  EXPECT_EQ(space_of({"--global-batch", "9223372036854775806"}).micro_batches,
            (std::vector<std::int64_t>{1, 2, 9223372036854775806}));
  EXPECT_EQ(space_of({"--global-batch", "4611686018427387904"}).micro_batches.size(), 63U);
  EXPECT_EQ(space_of({"--global-batch", "4", "--micro-batch", "8"}).micro_batches,
            std::vector<std::int64_t>{8});  // as it is recorded, though a step has fewer
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

TEST(SearchSpace, ARunThatGoesOnKeepsWhatChangesItsBits) {
  const std::vector<std::string> on = {"--global-batch", "8", "--run", "x", "--resume"};
  const SearchSpace kept = space_of(on);
  EXPECT_EQ(kept.micro_batches, std::vector<std::int64_t>{1});
  EXPECT_EQ(kept.passes(1).size(), 1U);
  std::vector<std::string> allowed = on;
  allowed.insert(allowed.end(), {"--allow-change", "micro-batch"});
  EXPECT_EQ(space_of(allowed).micro_batches.size(), 4U);
  EXPECT_EQ(space_of(allowed).passes(1).size(), 1U);
}

TEST(SearchSpace, TuneRefusesWhatItDoesNotKnow) {
  const auto error = [](const std::vector<std::string>& options) {
    return error_text<ConfigError>([&] { engine::check_tune_options(tiny_options(options)); });
  };
  EXPECT_TRUE(mentions(error({"--vary", "momets"}), "did you mean 'moments'"))
      << error({"--vary", "momets"});
  EXPECT_TRUE(mentions(error({"--vary", "none,pass"}), "'none' stands alone"));
  EXPECT_TRUE(mentions(error({"--vary", ""}), "--vary names nothing"));
  EXPECT_TRUE(mentions(error({"--vary", "pass", "--run", "x", "--resume"}),
                       "--allow-change pass lets it differ"));
  EXPECT_TRUE(mentions(error({"--plans", "0"}), "--plans is 0"));
}

}  // namespace
}  // namespace strata::test
