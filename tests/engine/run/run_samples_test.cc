// Samples of a training run as the program prints them: text through the tokenizer of the model's
// folder, from the token that begins a text, up to one that ends it; the same on any number of
// ranks.
#include <sstream>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using nlohmann::json;

constexpr int kVocabulary = 300;
constexpr int kTokens = 40;

class RunSamplesText : public DurableRuns {
 protected:
  RunSamplesText() : DurableRuns(1) {
    test::write_tokens(path("tokens.bin"), 4000, kVocabulary);
    const std::string model = fmt::format(
        "llama:layers=1,hidden=32,heads=2,kv-heads=1,intermediate=48,context=32,vocab={}",
        kVocabulary);
    complete("origin", kData + Words{"--model", model, "--export", "model"});
  }

  // Token i is "<i>", as bytes.
  void write_tokenizer() const {
    json vocabulary;
    for (int id = 0; id < kVocabulary; ++id) vocabulary[fmt::format("<{}>", id)] = id;
    std::ofstream(path("model/tokenizer.json"))
        << json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
                {"decoder", {{"type", "ByteLevel"}}}};
  }
  void write_generation_config(const json& config) const {
    std::ofstream(path("model/generation_config.json")) << config;
  }

  // What stands behind "sample: " at the end of a run that changes nothing.
  std::string sample(const std::string& run, int ranks = 1) const {
    const test::ProcessResult result = train(
        run,
        kData + Words{"--model", "model", "--lr", "0", "--sample-tokens", std::to_string(kTokens)},
        ranks);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string mark = "\nsample: ";
    const std::size_t begin = result.out.find(mark);
    if (begin == std::string::npos) return "";
    const std::size_t text = begin + mark.size();
    return result.out.substr(text, result.out.find('\n', text) - text);
  }

  const Words kData = {"--data", "tokens.bin", "--warmup", "0"};
};

// The ids in a text such as "<7><12>"; nothing else may be there.
std::vector<int> ids_of(std::string text) {
  std::vector<int> ids;
  std::istringstream in(text);
  char open = 0;
  char close = 0;
  for (int id = 0; in >> open >> id >> close; ids.push_back(id)) {
    EXPECT_TRUE(open == '<' && close == '>') << text;
  }
  EXPECT_TRUE(in.eof()) << text;
  return ids;
}

TEST_F(RunSamplesText, IsThatOfTheTokenizer) {
  const std::string numbers = sample("without");
  write_tokenizer();
  const std::string text = sample("with");
  const std::vector<int> ids = ids_of(text);
  EXPECT_EQ(ids.size(), kTokens);
  EXPECT_EQ(fmt::format("{} ", fmt::join(ids, " ")), numbers);
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  EXPECT_EQ(sample("two", 2), text);
}

TEST_F(RunSamplesText, BeginsAndEndsAsTheFolderSays) {
  write_tokenizer();
  const std::string from_0 = sample("nothing");
  write_generation_config({{"bos_token_id", 0}});
  EXPECT_EQ(sample("zero"), from_0);
  write_generation_config({{"bos_token_id", 5}});
  EXPECT_NE(sample("five"), from_0);
  const std::vector<int> ids = ids_of(from_0);
  write_generation_config({{"eos_token_id", {ids[20], kVocabulary - 1}}});
  const std::vector<int> ended = ids_of(sample("ended"));
  EXPECT_LE(ended.size(), 20u);
  EXPECT_TRUE(std::ranges::equal(ended, std::span(ids).first(ended.size())));
  const int next = ids[ended.size()];
  EXPECT_TRUE(next == ids[20] || next == kVocabulary - 1);
}

TEST_F(RunSamplesText, ATokenizerThatIsNotSupportedIsRefused) {
  std::ofstream(path("model/tokenizer.json"))
      << R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}, "decoder": {"type": "WordPiece"}})";
  expect_refused("run", kData + Words{"--model", "model", "--sample-tokens", "3"}, 2,
                 {"tokenizer.json: its decoder", "WordPiece"});
}

}  // namespace
}  // namespace strata::engine
