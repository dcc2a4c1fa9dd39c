// `strata generate`: a real model's greedy text as its publisher states it, from one file, from
// shards and streamed from NVMe; seeds, ends of the text and refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"
#include "models/hf_config.h"
#include "models/presets.h"
#include "tests/support/error_text.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kData = STRATA_SOURCE_DIR "/../shared/data/weights/stories260K/";
constexpr int kExitUsage = 2;

ProcessResult generate(const std::string& model, std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  arguments.insert(arguments.begin(), {STRATA_BINARY, "generate", "--model", model, "--threads",
                                       "2", "--nvme", folder.path()});
  return run_process(arguments, folder.path());
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class StoriesText : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kData)) GTEST_SKIP() << "there is no " << kData;
  }

  static std::string greedy(const std::string& folder, std::vector<std::string> more) {
    more.insert(more.end(), {"--prompt-ids", "1", "--temperature", "0", "--max-tokens", "200",
                             "--precision", "f32"});
    const ProcessResult result = generate(kData + folder, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(mentions, result.err, "tokens/s");
    return result.out;
  }
  static json drawn(std::vector<std::string> more) {
    more.insert(more.end(), {"--prompt-ids", "1", "--json"});
    const ProcessResult result = generate(kData + "hf_f32", more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
};

TEST_F(StoriesText, GreedyIsThatOfThePublisher) {
  const std::string expected = text_of(kData + "expected_greedy200.txt");
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(greedy("hf_f32", {}), expected);
  EXPECT_EQ(greedy("hf_f32_sharded", {}), expected);
  EXPECT_EQ(greedy("hf_f32", {"--place", "weights=nvme"}), expected);
}

TEST_F(StoriesText, DrawsAreThoseOfTheSeed) {
  const json first = drawn({"--seed", "3", "--max-tokens", "40"});
  EXPECT_EQ(first["ids"].size(), 40u);
  EXPECT_EQ(first["ended_by"], "max tokens");
  EXPECT_EQ(drawn({"--seed", "3", "--max-tokens", "40"})["ids"], first["ids"]);
  EXPECT_EQ(drawn({"--seed", "3", "--max-tokens", "40", "--place", "weights=nvme"})["ids"],
            first["ids"]);
  EXPECT_NE(drawn({"--seed", "4", "--max-tokens", "40"})["ids"], first["ids"]);
  // A shorter text is the beginning of a longer one.
  const std::vector<int> ids = first["ids"];
  EXPECT_EQ(drawn({"--seed", "3", "--max-tokens", "9"})["ids"],
            std::vector<int>(ids.begin(), ids.begin() + 9));
}

TEST_F(StoriesText, EndsBeforeAStopToken) {
  const json whole = drawn({"--temperature", "0", "--max-tokens", "20"});
  const std::vector<int> ids = whole["ids"];
  const int stop = ids[7];
  const auto first = std::find(ids.begin(), ids.end(), stop);
  const json ended =
      drawn({"--temperature", "0", "--max-tokens", "20", "--stop-ids", std::to_string(stop)});
  EXPECT_EQ(ended["ids"], std::vector<int>(ids.begin(), first));
  EXPECT_EQ(ended["ended_by"], "end token");
  EXPECT_TRUE(whole["text"].get<std::string>().starts_with(ended["text"].get<std::string>()));
}

TEST_F(StoriesText, EndsAtTheContextWithANote) {
  const ProcessResult result = generate(
      kData + "hf_f32", {"--prompt-ids", "1", "--max-tokens", "5000", "--stop-ids", "511"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, "context of 512 tokens is full");
}

// Device memory that a plan for so many tokens takes.
std::int64_t device_bytes(std::int64_t max_tokens) {
  engine::Options options;
  options.model = kData + "hf_f32";
  options.prompt_ids = "1";
  options.max_tokens = max_tokens;
  options.place = "weights=host";
  options.threads = 2;
  const auto comm = comm::make_single_rank_communicator();
  return engine::make_run_setup(options, comm->topology(), comm->staging_bytes(),
                                offload::kBlockElements, engine::Purpose::inference)
      .plan.total_bytes(offload::Tier::device);
}

TEST_F(StoriesText, ACacheThatDoesNotFitIsRefusedWithWhatWould) {
  const auto run = [](const std::string& max_tokens, const std::string& memory) {
    return generate(kData + "hf_f32",
                    {"--prompt-ids", "1", "--temperature", "0", "--place", "weights=host",
                     "--max-tokens", max_tokens, "--device-memory", memory});
  };
  const std::string memory = std::to_string(device_bytes(100));
  const ProcessResult refused = run("5000", memory);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_PRED2(mentions, refused.err, "device memory is short by");
  const std::string advice = "or use --max-tokens ";
  ASSERT_PRED2(mentions, refused.err, advice);
  const std::size_t number = refused.err.find(advice) + advice.size();
  const int advised = std::stoi(refused.err.substr(number));
  EXPECT_GE(advised, 100);
  EXPECT_EQ(run(std::to_string(advised), memory).exit_code, 0);
  EXPECT_NE(run(std::to_string(advised + 1), memory).exit_code, 0);
}

constexpr const char* kBytes = "gpt2:layers=1,hidden=32,heads=2,context=64";

TEST(Generate, BytesArePrintedAsValidUtf8) {
  const ProcessResult result =
      generate(kBytes, {"--from-scratch", "--prompt", "abc", "--max-tokens", "60", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json parsed = json::parse(result.out);  // throws for what is no UTF-8
  EXPECT_EQ(parsed["prompt_ids"], (std::vector<int>{'a', 'b', 'c'}));
  EXPECT_EQ(parsed["ids"].size(), 60u);
  EXPECT_GE(parsed["text"].get<std::string>().size(), 60u);
}

TEST(Generate, EndsWhereItsTextCannotBeShown) {
  const TemporaryFolder folder;
  const std::string generate = fmt::format(
      "{} generate --model {} --from-scratch --threads 1 --prompt a --max-tokens 60 >/dev/full",
      STRATA_BINARY, kBytes);
  const ProcessResult result = run_process({"sh", "-c", generate}, folder.path());
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_PRED2(mentions, result.err, "cannot write to standard output");
  EXPECT_FALSE(mentions(result.err, "tokens/s")) << "it went on: " << result.err;
}

TEST(Generate, ModelsWithoutATokenizerGiveIds) {
  const ProcessResult result =
      generate("gpt2:layers=1,hidden=32,heads=2,context=64,vocab=300",
               {"--from-scratch", "--prompt-ids", "299,0", "--max-tokens", "5"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream ids(result.out);
  int count = 0;
  for (int id = 0; ids >> id; ++count) EXPECT_LT(id, 300);
  EXPECT_EQ(count, 5);
}

TEST(Generate, RefusesWhatIsNoPrompt) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& message) {
    std::vector<std::string> arguments = {"--from-scratch"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = generate(kBytes, arguments);
    EXPECT_EQ(result.exit_code, kExitUsage) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_PRED2(mentions, result.err, message);
  };
  refused({"--prompt-ids", "1,256"}, "'256' is no token of this model, whose ids are 0 to 255");
  refused({"--prompt-ids", "1,,2"}, "'' is no token");
  refused({"--prompt-ids", "1x"}, "'1x' is no token");
  refused({"--prompt", "a", "--stop-ids", "-1"}, "--stop-ids: '-1' is no token");
  refused({"--prompt", std::string(65, 'a')}, "65 tokens, more than the model's context of 64");
  refused({}, "--prompt");
}

// Its 256 tokens are others than the bytes.
TEST(Generate, TextIsForModelsWithoutATokenizer) {
  const TemporaryFolder folder;
  const auto config = models::parse_model("gpt2:layers=1,hidden=32,heads=2,context=64");
  std::ofstream(folder.path("config.json")) << models::hf_config_text(config, Dtype::f32);
  const std::vector<std::string> arguments = {"--from-scratch", "--prompt", "a"};
  EXPECT_EQ(generate(folder.path(), arguments).exit_code, 0);
  std::ofstream(folder.path("tokenizer.json")) << "{}";
  const ProcessResult result = generate(folder.path(), arguments);
  EXPECT_EQ(result.exit_code, kExitUsage);
  EXPECT_PRED2(mentions, result.err, "--prompt-ids");
}

TEST(Generate, TextIsForModelsOfBytes) {
  const ProcessResult result = generate("gpt2:layers=1,hidden=32,heads=2,context=64,vocab=300",
                                        {"--from-scratch", "--prompt", "a"});
  EXPECT_EQ(result.exit_code, kExitUsage);
  EXPECT_PRED2(mentions, result.err, "--prompt-ids");
}

}  // namespace
}  // namespace strata::test
