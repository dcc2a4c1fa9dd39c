#include "models/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/presets.h"
#include "tests/support/error_text.h"

namespace strata::models {
namespace {

using test::error_text;
using test::mentions;

// The config.json of openai-community/gpt2, without what belongs to other programs.
constexpr const char* kPublished = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";

std::string changed(const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(kPublished);
  json[key] = value;
  return json.dump();
}

TEST(HfConfig, ThePublishedModelIsThePreset) {
  const HfModel model = parse_hf_config(kPublished);
  EXPECT_EQ(model.config.parameters(), 124'439'808);
  EXPECT_EQ(model.config.heads, 12);
  EXPECT_EQ(model.config.context, 1024);
  EXPECT_TRUE(model.has_dropout);
}

TEST(HfConfig, DropoutIsOnlyNoted) {
  auto json = nlohmann::json::parse(kPublished);
  for (const char* const key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0.0;
  EXPECT_FALSE(parse_hf_config(json.dump()).has_dropout);
}

TEST(HfConfig, WhatIsNotSupportedIsRefusedByName) {
  struct Case {
    const char* key;
    nlohmann::json value;
    const char* part;
  };
  const Case cases[] = {
      {"architectures",
       {"LlamaForCausalLM"},
       "architecture LlamaForCausalLM with model_type gpt2 is not supported; supported: GPT2LMHe"},
      {"architectures", {"GPT2Model"}, "architecture GPT2Model is not supported"},
      {"model_type", "llama", "GPT2LMHeadModel with model_type llama is not supported"},
      {"quantization_config", nlohmann::json::object(), "quantization_config is object"},
      {"activation_function", "relu", "activation_function is \"relu\""},
      {"n_inner", 1024, "n_inner is 1024; supported: null or 4 n_embd, 3072"},
      {"layer_norm_epsilon", 1e-6, "layer_norm_epsilon is 1e-06"},
      {"scale_attn_weights", false, "scale_attn_weights is false"},
      {"scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx is true"},
      {"reorder_and_upcast_attn", true, "reorder_and_upcast_attn is true"},
      {"tie_word_embeddings", false, "tie_word_embeddings is false"},
      {"add_cross_attention", true, "add_cross_attention is true"},
      {"n_head", 7, "hidden size (768) must be a multiple of heads (7)"},
      {"n_ctx", 512, "n_ctx is 512 and n_positions 1024"},
      {"n_layer", 0, "n_layer must be a whole number from 1 to 4096 and is 0"},
      {"n_layer", nullptr, "n_layer must be a whole number from 1 to 4096 and is missing"},
      {"vocab_size", -5, "vocab_size must be"},
      {"vocab_size", 1LL << 40, "vocab_size must be"},
      {"n_embd", 768.5, "n_embd must be"},
      {"attn_pdrop", "0.1", "attn_pdrop is \"0.1\", which is no number"},
  };
  for (const Case& wrong : cases) {
    const std::string text = changed(wrong.key, wrong.value);
    EXPECT_PRED2(mentions, error_text<ConfigError>([&] { (void)parse_hf_config(text); }),
                 wrong.part);
  }
  EXPECT_EQ(parse_hf_config(changed("n_inner", 3072)).config.hidden, 768);
}

TEST(HfConfig, EverythingWrongIsSaidAtOnce) {
  auto json = nlohmann::json::parse(kPublished);
  json["activation_function"] = "relu";
  json["tie_word_embeddings"] = false;
  const std::string text = error_text<ConfigError>([&] { (void)parse_hf_config(json.dump()); });
  EXPECT_PRED2(mentions, text, "activation_function");
  EXPECT_PRED2(mentions, text, "tie_word_embeddings");
}

TEST(HfConfig, OtherTextIsNoConfig) {
  for (const char* const text : {"", "[]", "{", "3"}) {
    EXPECT_THROW((void)parse_hf_config(text), FormatError) << text;
  }
  const std::string nested = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string config = R"({"model_type": "gpt2", "other": )" + nested + "}";
  EXPECT_PRED2(mentions, error_text<FormatError>([&] { (void)parse_hf_config(config); }),
               "nested deeper than 100");
}

TEST(HfConfig, AnExportKeepsTheFieldsOfTheOriginal) {
  const HfModel model = parse_hf_config(kPublished);
  const auto merged =
      nlohmann::json::parse(merged_hf_config(model.config, Dtype::bf16, kPublished));
  const auto original = nlohmann::json::parse(kPublished);
  for (const auto& [key, value] : original.items()) {
    EXPECT_EQ(merged[key], value) << key;
  }
  EXPECT_EQ(merged["torch_dtype"], "bfloat16");
  EXPECT_EQ(merged["tie_word_embeddings"], true);
}

TEST(HfConfig, ConfigDescribesTheModel) {
  const auto json = nlohmann::json::parse(hf_config_text(parse_model("gpt2-355m"), Dtype::bf16));
  EXPECT_EQ(json["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(json["activation_function"], "gelu_new");
  EXPECT_EQ(json["n_layer"], 24);
  EXPECT_EQ(json["n_embd"], 1024);
  EXPECT_EQ(json["n_head"], 16);
  EXPECT_EQ(json["n_positions"], 1024);
  EXPECT_EQ(json["vocab_size"], 50257);
  EXPECT_EQ(json["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_EQ(json["eos_token_id"], 50256);
  const auto bytes = nlohmann::json::parse(
      hf_config_text(parse_model("gpt2:layers=1,hidden=8,heads=2,context=4"), Dtype::f32));
  EXPECT_EQ(bytes["torch_dtype"], "float32");
  EXPECT_TRUE(bytes["eos_token_id"].is_null());
}

}  // namespace
}  // namespace strata::models
