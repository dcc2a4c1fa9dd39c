// Fine-tuning of a Hugging Face folder with the program: transformers' loss, every bit back in an
// export, one rank or several, and a run that goes on without the folder.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "models/safetensors.h"
#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kGolden = std::string(STRATA_SOURCE_DIR) + "/tests/golden/hf_gpt2_tiny";

// The bytes of each tensor, by name and shape.
std::map<std::string, std::string> tensors_of(const std::string& file) {
  const std::string text = test::contents_of(file);
  const auto bytes = std::as_bytes(std::span(text));
  const std::int64_t data = models::safetensors_data_offset(bytes, std::ssize(text));
  std::map<std::string, std::string> tensors;
  const auto header = models::decode_safetensors(
      std::string_view(text).substr(8, static_cast<std::size_t>(data - 8)),
      std::ssize(text) - data);
  for (const models::SafetensorsTensor& tensor : header.tensors) {
    const std::string key =
        fmt::format("{} {} ({})", tensor.name, tensor.dtype, fmt::join(tensor.shape, ", "));
    tensors[key] = text.substr(static_cast<std::size_t>(data + tensor.offset_bytes),
                               static_cast<std::size_t>(tensor.bytes));
  }
  return tensors;
}

class Pretrained : public DurableRuns {
 protected:
  Pretrained() : DurableRuns(2) {
    golden_ = json::parse(test::contents_of(kGolden + "/golden.json"));
    std::ofstream(path("golden.txt")) << golden_["text"].get<std::string>();
  }
  Words words(const std::string& model) const {
    return {"--model",        model, "--val-data", "golden.txt",
            "--eval-batches", "0",   "--seq-len",  std::to_string(golden_["tokens"].get<int>()),
            "--warmup",       "0"};
  }
  double first_validation_loss(const std::string& run) const {
    return test::json_lines(test::contents_of(path(run + "/log.jsonl"))).at(0).at("val_loss");
  }

  json golden_;
};

// Both are sums of 144 terms of about 5 from f32 logits, whose rounding is some 2^-24 of them each:
// 1e-5 is that times the depth of the network, with room.
TEST_F(Pretrained, TheLossIsThatOfTransformers) {
  complete("run", words(kGolden) + Words{"--precision", "f32"});
  EXPECT_NEAR(first_validation_loss("run"), golden_["loss"], 1e-5);
}

// A step at a rate of 0 changes no master.
TEST_F(Pretrained, WhatComesInGoesOutAgain) {
  const Words still = {"--lr", "0", "--place", "weights=nvme,moments=nvme"};
  const int ranks_max = obstacle_to_ranks().empty() ? 2 : 1;
  const auto original = tensors_of(kGolden + "/model.safetensors");
  ASSERT_FALSE(original.empty());
  for (const char* const precision : {"bf16", "f32"}) {
    for (int ranks = 1; ranks <= ranks_max; ++ranks) {
      const std::string run = fmt::format("{}-{}", precision, ranks);
      complete(run, words(kGolden) + still + Words{"--precision", precision}, ranks);
      weights_of(run);
      EXPECT_EQ(tensors_of(path(run + ".exported/model.safetensors")), original) << run;
    }
  }
}

TEST_F(Pretrained, AnExportHasTheFilesBesideTheWeights) {
  complete("run", words(kGolden) + Words{"--export", "exported"});
  for (const char* const name : {"exported", "run.exported"}) {
    if (std::string(name) == "run.exported") weights_of("run");
    EXPECT_EQ(test::contents_of(path(std::string(name) + "/tokenizer_config.json")),
              test::contents_of(kGolden + "/tokenizer_config.json"));
    const json config = json::parse(test::contents_of(path(std::string(name) + "/config.json")));
    EXPECT_EQ(config["initializer_range"], 0.2) << name;
  }
}

TEST_F(Pretrained, ARunGoesOnAndExportsWithoutTheFolder) {
  const std::string model = folder_.make_folder("model");
  fs::copy(kGolden, model, fs::copy_options::recursive);
  complete("whole", words(model));
  complete("run", words(model) + Words{"--steps", "1", "--lr-schedule", "constant"});
  fs::remove_all(model);
  complete("run", words(model) + Words{"--resume", "--lr-schedule", "constant"});
  weights_of("run");
  EXPECT_EQ(logged("run").size(), 2u);
}

TEST_F(Pretrained, TheStartSaysWhereTheWeightsComeFrom) {
  EXPECT_PRED2(test::mentions, train("a", words(kGolden)).out,
               "weights    pretrained, from " + kGolden + " (model.safetensors, f32)");
  EXPECT_PRED2(test::mentions, train("b", {"--warmup", "0"}).out, "weights    random, seed 1337");
}

TEST_F(Pretrained, AFailedImportLeavesNothing) {
  const std::string model = folder_.make_folder("model");
  fs::copy(kGolden, model, fs::copy_options::recursive);
  std::string text = test::contents_of(model + "/model.safetensors");
  const std::uint32_t infinity = 0x7F800000;
  std::memcpy(text.data() + text.size() - 4, &infinity, 4);
  std::ofstream(model + "/model.safetensors", std::ios::binary) << text;
  const test::ProcessResult result = train("run", words(model));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_PRED2(test::mentions, result.err, "is inf");
  EXPECT_FALSE(fs::exists(path("run")));
}

}  // namespace
}  // namespace strata::engine
