#include "models/boundary_tokens.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"

namespace strata::models {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(EndTokens, AreThoseOfTheGenerationConfigOrElseOfTheConfig) {
  EXPECT_EQ(end_tokens("", "", 100), Tokens{});
  EXPECT_EQ(end_tokens("", R"({"eos_token_id": 2})", 100), Tokens{2});
  EXPECT_EQ(end_tokens(R"({"eos_token_id": [7, 9]})", R"({"eos_token_id": 2})", 100),
            (Tokens{7, 9}));
  EXPECT_EQ(end_tokens(R"({"bos_token_id": 1})", R"({"eos_token_id": 2})", 100), Tokens{2});
  EXPECT_EQ(end_tokens(R"({"eos_token_id": null})", R"({"eos_token_id": [2]})", 100), Tokens{2});
}

TEST(EndTokens, LeaveOutWhatTheModelCannotSay) {
  EXPECT_EQ(end_tokens("", R"({"eos_token_id": [99, 100, -1]})", 100), Tokens{99});
}

TEST(EndTokens, RefuseWhatIsNoId) {
  EXPECT_THROW(end_tokens("", "{", 100), FormatError);
  EXPECT_THROW(end_tokens("[]", "", 100), FormatError);
  EXPECT_THROW(end_tokens(std::string(200'000, '['), "", 100), FormatError);
  EXPECT_THROW(end_tokens("", R"({"eos_token_id": "2"})", 100), FormatError);
  EXPECT_THROW(end_tokens("", R"({"eos_token_id": [1.5]})", 100), FormatError);
}

TEST(BeginToken, IsThatOfTheGenerationConfigOrElseOfTheConfig) {
  EXPECT_EQ(begin_token("", "", 100), std::nullopt);
  EXPECT_EQ(begin_token("", R"({"bos_token_id": 1, "eos_token_id": 2})", 100), 1);
  EXPECT_EQ(begin_token(R"({"bos_token_id": 7})", R"({"bos_token_id": 1})", 100), 7);
  EXPECT_EQ(begin_token(R"({"bos_token_id": null})", R"({"bos_token_id": 0})", 100), 0);
  EXPECT_EQ(begin_token("", R"({"bos_token_id": 100})", 100), std::nullopt);
  EXPECT_THROW(begin_token("", R"({"bos_token_id": "1"})", 100), FormatError);
}

}  // namespace
}  // namespace strata::models
