// What a Llama's folder may have and lack; hf_filler_test.cc has the rest, on a GPT-2.
#include "engine/portable/hf_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "kernels/base/error.h"
#include "models/model_config.h"
#include "models/safetensors.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

PortableParameter parameter(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return {name, rows, columns, 0, true};
}

using Stored = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// With a head of its own, or tied.
std::vector<PortableParameter> parameters(models::HeadKind head) {
  std::vector<PortableParameter> all = {
      parameter("embed_tokens.weight", 4, 6), parameter("layers.0.input_layernorm.weight", 1, 6),
      parameter("layers.0.self_attn.q_proj.weight", 8, 6),
      parameter("layers.0.self_attn.q_proj.bias", 1, 8), parameter("norm.weight", 1, 6)};
  if (head == models::HeadKind::untied) all.push_back(parameter("lm_head.weight", 4, 6));
  return all;
}

class HfReaderTest : public ::testing::Test {
 protected:
  HfReaderTest()
      : stored_{{"model.embed_tokens.weight", {4, 6}},
                {"model.layers.0.input_layernorm.weight", {6}},
                {"model.layers.0.self_attn.q_proj.weight", {8, 6}},
                {"model.layers.0.self_attn.q_proj.bias", {8}},
                {"model.norm.weight", {6}}} {}

  // The tensors hold 0, 1, 2, … , one after the other.
  void write() const {
    models::SafetensorsHeader header;
    for (const auto& [name, shape] : stored_) header.tensors.push_back({name, "F32", shape, 0, 0});
    std::vector<float> values(static_cast<std::size_t>(models::place_tensors(header.tensors) / 4));
    std::iota(values.begin(), values.end(), 0.0f);
    std::ofstream file(folder_.path("model.safetensors"), std::ios::binary);
    file << encode_safetensors(header);
    file.write(reinterpret_cast<const char*>(values.data()), std::ssize(values) * 4);
  }
  HfReader open(models::HeadKind head) const {
    write();
    return {folder_.path(), parameters(head)};
  }
  std::string refusal(models::HeadKind head) const {
    return error_text<ConfigError>([&] { (void)open(head); });
  }

  const test::TemporaryFolder folder_;
  Stored stored_;
};

TEST_F(HfReaderTest, LinearLayersAreAsOurs) {
  HfReader reader = open(models::HeadKind::tied);
  std::vector<float> values(3);
  reader.read(parameter("layers.0.self_attn.q_proj.weight", 8, 6), 7, values);
  EXPECT_EQ(values, (std::vector<float>{37, 38, 39}));  // 30 + 7 and on
  EXPECT_FALSE(reader.has_tied_head());
}

TEST_F(HfReaderTest, ThePrefixMayBeMissing) {
  for (auto& [name, shape] : stored_) name = name.substr(std::string("model.").size());
  std::vector<float> values(1);
  open(models::HeadKind::tied).read(parameter("norm.weight", 1, 6), 5, values);
  EXPECT_EQ(values[0], 24 + 6 + 48 + 8 + 5);
}

TEST_F(HfReaderTest, RotaryFrequenciesAreIgnored) {
  stored_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  stored_.push_back({"model.rotary_emb.inv_freq", {2}});
  EXPECT_NO_THROW((void)open(models::HeadKind::tied));
}

TEST_F(HfReaderTest, AHeadIsItsOwnOrTied) {
  EXPECT_PRED2(mentions, refusal(models::HeadKind::untied), "'lm_head.weight' is missing");
  stored_.push_back({"lm_head.weight", {4, 6}});
  HfReader untied = open(models::HeadKind::untied);
  EXPECT_FALSE(untied.has_tied_head());
  std::vector<float> values(1);
  untied.read(parameter("lm_head.weight", 4, 6), 0, values);
  EXPECT_EQ(values[0], 24 + 6 + 48 + 8 + 6);
  HfReader tied = open(models::HeadKind::tied);
  EXPECT_TRUE(tied.has_tied_head());
  tied.read_tied_head(1, values);
  EXPECT_EQ(values[0], 24 + 6 + 48 + 8 + 6 + 1);
  stored_.back().second = {6, 4};
  EXPECT_PRED2(mentions, refusal(models::HeadKind::tied),
               "'lm_head.weight' is not as 'model.embed_tokens.weight'");
}

TEST_F(HfReaderTest, ATiedModelMayBeStoredAsItsHeadAlone) {
  stored_.front().first = "lm_head.weight";
  HfReader reader = open(models::HeadKind::tied);
  EXPECT_FALSE(reader.has_tied_head());
  std::vector<float> values(2);
  reader.read(parameter("embed_tokens.weight", 4, 6), 7, values);
  EXPECT_EQ(values, (std::vector<float>{7, 8}));  // the first tensor of the file
  EXPECT_PRED2(mentions, refusal(models::HeadKind::untied),
               "'model.embed_tokens.weight' is missing");
  stored_.front().second = {6, 4};
  EXPECT_PRED2(mentions, refusal(models::HeadKind::tied),
               "'lm_head.weight' is (6, 4) and not (4, 6)");
}

TEST_F(HfReaderTest, WhatIsMissingHasTheNameThatItIsStoredUnder) {
  stored_.pop_back();
  EXPECT_PRED2(mentions, refusal(models::HeadKind::tied), "'model.norm.weight' is missing");
}

TEST_F(HfReaderTest, AFolderOfTheCacheIsToBeDownloadedWhole) {
  const std::string cached = folder_.path("models--some-org--tiny/snapshots/abc");
  std::filesystem::create_directories(cached);
  const auto refusal_of = [](const std::string& folder) {
    return error_text<ConfigError>([&] { HfReader(folder, parameters(models::HeadKind::tied)); });
  };
  EXPECT_PRED2(mentions, refusal_of(cached), "hf download some-org/tiny");
  std::ofstream(cached + "/model.safetensors.index.json")
      << R"({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})";
  const std::string text = refusal_of(cached);
  EXPECT_PRED2(mentions, text, "model-00001-of-00002.safetensors is missing");
  EXPECT_PRED2(mentions, text, "hf download some-org/tiny");
  EXPECT_FALSE(mentions(refusal_of(folder_.path()), "hf download"));
}

TEST_F(HfReaderTest, BiasesThatTheModelHasNotAreNamed) {
  stored_.push_back({"model.layers.0.self_attn.o_proj.bias", {6}});
  EXPECT_PRED2(mentions, refusal(models::HeadKind::tied),
               "'model.layers.0.self_attn.o_proj.bias' is no tensor of this model");
}

}  // namespace
}  // namespace strata::engine
