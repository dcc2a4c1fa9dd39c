// Configurations of llama, mistral, qwen2 and qwen3 as their publishers have them, read and written
// again.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/hf_config.h"
#include "models/presets.h"
#include "tests/support/error_text.h"

namespace strata::models {
namespace {

using nlohmann::json;
using test::error_text;
using test::mentions;

// Without what belongs to other programs: the config.json of Llama-3.1-8B, Mistral-7B-v0.1,
// Qwen2.5-0.5B, Qwen3-0.6B and SmolLM2-135M, and the preset that each is.
struct Published {
  const char* preset;
  const char* text;
};
constexpr Published kPublished[] = {
    {"llama3.1-8b", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096,
      "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
      "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"},
      "rope_theta": 500000.0, "tie_word_embeddings": false, "vocab_size": 128256})"},
    {"mistral-7b", R"({"architectures": ["MistralForCausalLM"], "hidden_act": "silu",
      "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
      "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
      "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})"},
    {"qwen2.5-0.5b", R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
      "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
      "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
      "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
      "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
      "tie_word_embeddings": true, "use_mrope": false, "use_sliding_window": false,
      "vocab_size": 151936})"},
    {"qwen3-0.6b", R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
      "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
      "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
      "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
      "use_sliding_window": false, "vocab_size": 151936})"},
    {"smollm2-135m", R"({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
      "hidden_size": 576, "intermediate_size": 1536, "is_llama_config": true,
      "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
      "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
      "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
      "tie_word_embeddings": true, "vocab_size": 49152})"},
};
constexpr const char* kLlama = kPublished[0].text;
constexpr const char* kMistral = kPublished[1].text;
constexpr const char* kQwen2 = kPublished[2].text;
constexpr const char* kQwen3 = kPublished[3].text;

// A key that is null is taken out.
std::string changed(const char* text, const json& changes) {
  json config = json::parse(text);
  for (const auto& [key, value] : changes.items()) {
    config[key] = value;
    if (value.is_null()) config.erase(key);
  }
  return config.dump();
}

ModelConfig read(const std::string& text) { return parse_hf_config(text).config; }

std::string refusal(const std::string& text) {
  return error_text<ConfigError>([&] { (void)parse_hf_config(text); });
}

// Everything but the name, which files do not have.
void expect_same(ModelConfig config, const ModelConfig& expected) {
  config.name = expected.name;
  EXPECT_EQ(config.parameters(), expected.parameters());
  EXPECT_EQ(config.context, expected.context);
  EXPECT_EQ(config.head_dim, expected.head_dim);
  EXPECT_EQ(config.window, expected.window);
  // Its writing has all of it.
  EXPECT_EQ(hf_config_text(config, Dtype::f32), hf_config_text(expected, Dtype::f32));
}

TEST(HfLlamaConfig, PublishedModelsAreThePresets) {
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.preset);
    expect_same(read(published.text), parse_model(published.preset));
    EXPECT_FALSE(parse_hf_config(published.text).has_dropout);
  }
}

TEST(HfLlamaConfig, WhatIsWrittenIsReadAgain) {
  std::vector<std::string> models = model_presets();
  models.emplace_back("qwen2:layers=2,hidden=48,heads=4,context=64,head-dim=6,window=5,tied=yes");
  for (const std::string& model : models) {
    SCOPED_TRACE(model);
    const ModelConfig config = parse_model(model);
    const std::string text = hf_config_text(config, Dtype::bf16);
    expect_same(read(text), config);
    EXPECT_EQ(json::parse(text)["model_type"], name_of(config.family));
  }
}

TEST(HfLlamaConfig, DefaultsAreThoseOfTransformers) {
  const json none = {{"num_key_value_heads", nullptr}, {"rms_norm_eps", nullptr},
                     {"rope_theta", nullptr},          {"rope_scaling", nullptr},
                     {"tie_word_embeddings", nullptr}, {"hidden_act", nullptr},
                     {"sliding_window", nullptr},      {"head_dim", nullptr},
                     {"use_sliding_window", nullptr},  {"architectures", nullptr}};
  const ModelConfig llama = read(changed(kLlama, none));
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.rotary->theta, 10000);
  EXPECT_TRUE(std::holds_alternative<PlainRotary>(llama.rotary->scaling));
  EXPECT_EQ(llama.head, HeadKind::untied);
  EXPECT_EQ(llama.head_dim, 128);
  const ModelConfig mistral = read(changed(kMistral, none));
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.window, 4096);
  json qwen3 = none;
  qwen3["num_attention_heads"] = 32;
  EXPECT_EQ(read(changed(kQwen3, qwen3)).kv_heads, 32);
  EXPECT_EQ(read(changed(kQwen3, qwen3)).head_dim, 128);
  EXPECT_EQ(read(changed(kQwen3, qwen3)).window, 0);
}

TEST(HfLlamaConfig, WindowsAreOfAllLayersOrNone) {
  json with_null = json::parse(kMistral);
  with_null["sliding_window"] = nullptr;
  EXPECT_EQ(read(with_null.dump()).window, 0);
  const auto qwen = [](std::int64_t first_windowed) {
    return changed(kQwen2, {{"use_sliding_window", true},
                            {"sliding_window", 512},
                            {"max_window_layers", first_windowed}});
  };
  EXPECT_EQ(read(qwen(0)).window, 512);
  EXPECT_EQ(read(qwen(24)).window, 0);
  EXPECT_EQ(read(qwen(28)).window, 0);
  EXPECT_PRED2(mentions, refusal(qwen(21)), "sliding_window is 512 and 3 of 24 layers have one");
  const auto with_types = [](const char* text, bool used, const char* first, const char* others) {
    json config = json::parse(text);
    std::vector<std::string> types(config["num_hidden_layers"].get<std::size_t>(), others);
    types.front() = first;
    return changed(text, {{"use_sliding_window", used}, {"layer_types", types}});
  };
  constexpr const char* kFull = "full_attention";
  constexpr const char* kSliding = "sliding_attention";
  EXPECT_EQ(read(with_types(kQwen2, false, kFull, kFull)).window, 0);
  EXPECT_EQ(read(with_types(kQwen2, true, kSliding, kSliding)).window, 32768);
  EXPECT_EQ(read(with_types(kMistral, false, kSliding, kSliding)).window, 4096);
  EXPECT_PRED2(mentions, refusal(with_types(kQwen2, true, kSliding, kFull)), "1 of 24 layers");
  EXPECT_PRED2(mentions, refusal(with_types(kMistral, false, kFull, kFull)), "0 of 32 layers");
  EXPECT_PRED2(mentions, refusal(with_types(kQwen2, false, kFull, "chunked_attention")),
               "layer_types has \"chunked_attention\"");
}

TEST(HfLlamaConfig, RotaryScalingHasItsOldNamesAndItsNewOnes) {
  const auto scaling = [](const json& value) { return changed(kLlama, {{"rope_scaling", value}}); };
  EXPECT_TRUE(std::holds_alternative<PlainRotary>(
      read(scaling({{"rope_type", "default"}})).rotary->scaling));
  EXPECT_EQ(
      std::get<LinearRotary>(read(scaling({{"type", "linear"}, {"factor", 2.5}})).rotary->scaling)
          .factor,
      2.5);
  const ModelConfig yarn =
      read(scaling({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}}));
  EXPECT_EQ(std::get<YarnRotary>(yarn.rotary->scaling).factor, 4);
  EXPECT_EQ(std::get<YarnRotary>(yarn.rotary->scaling).original_context, 32768);
  EXPECT_EQ(std::get<YarnRotary>(yarn.rotary->scaling).beta_fast, 32);
  EXPECT_EQ(yarn.rotary->theta, 500000);
  const ModelConfig exact = read(scaling({{"rope_type", "yarn"},
                                          {"factor", 4},
                                          {"truncate", false},
                                          {"attention_factor", 1.25},
                                          {"mscale", 0.5}}));
  EXPECT_EQ(std::get<YarnRotary>(exact.rotary->scaling).range, YarnRotary::Range::exact);
  EXPECT_EQ(std::get<YarnRotary>(exact.rotary->scaling).original_context, 131072);
  EXPECT_EQ(std::get<YarnRotary>(exact.rotary->scaling).attention_factor, 1.25);
  expect_same(read(hf_config_text(exact, Dtype::f32)), exact);
  const ModelConfig zero =
      read(scaling({{"rope_type", "yarn"}, {"factor", 4}, {"mscale", 0.0}, {"mscale_all_dim", 0}}));
  EXPECT_EQ(std::get<YarnRotary>(zero.rotary->scaling).mscale, std::nullopt);
  EXPECT_EQ(std::get<YarnRotary>(zero.rotary->scaling).mscale_all_dim, std::nullopt);

  // As version 5 of transformers writes it.
  const std::string renamed = changed(kLlama, {{"rope_theta", nullptr},
                                               {"rope_scaling", nullptr},
                                               {"rope_parameters",
                                                {{"rope_theta", 500000.0},
                                                 {"factor", 8.0},
                                                 {"low_freq_factor", 1.0},
                                                 {"high_freq_factor", 4.0},
                                                 {"original_max_position_embeddings", 8192},
                                                 {"rope_type", "llama3"}}}});
  expect_same(read(renamed), parse_model("llama3.1-8b"));
  const json merged = json::parse(merged_hf_config(read(renamed), Dtype::f32, renamed));
  EXPECT_FALSE(merged.contains("rope_theta"));
  EXPECT_FALSE(merged.contains("rope_scaling"));
  EXPECT_EQ(merged["rope_parameters"]["factor"], 8.0);
}

TEST(HfLlamaConfig, WhatIsNotSupportedIsRefusedByName) {
  struct Case {
    const char* text;
    json changes;
    const char* part;
  };
  const Case cases[] = {
      {kLlama, {{"architectures", {"LlamaForSequenceClassification"}}}, "LlamaForSequenceClassif"},
      {kLlama, {{"architectures", {"MistralForCausalLM"}}}, "with model_type llama"},
      {kLlama, {{"architectures", nullptr}, {"model_type", "gemma"}}, "architecture gemma is not"},
      {kLlama, {{"hidden_act", "gelu"}}, "hidden_act is \"gelu\"; supported: \"silu\""},
      {kLlama, {{"attention_bias", true}}, "attention_bias is true"},
      {kLlama, {{"mlp_bias", true}}, "mlp_bias is true"},
      {kLlama, {{"is_causal", false}}, "is_causal is false"},
      {kLlama, {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5; supported: 1.0"},
      {kLlama, {{"quantization_config", {{"bits", 4}}}}, "quantization_config is object"},
      {kLlama,
       {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}},
       "rope_scaling.type is \"dynamic\"; supported: default, linear, llama3, yarn"},
      {kLlama, {{"rope_scaling", {{"rope_type", "longrope"}}}}, "rope_scaling.rope_type is"},
      {kLlama,
       {{"rope_scaling", {{"type", "linear"}}}},
       "rope_scaling.factor must be a number above 0 and is missing"},
      {kLlama, {{"rope_scaling", "linear"}}, "rope_scaling is \"linear\" and no object"},
      {kLlama,
       {{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8},
          {"low_freq_factor", 4},
          {"high_freq_factor", 4}}}},
       "high_freq_factor (4) must be above low_freq_factor (4)"},
      {kLlama,
       {{"rope_scaling", {{"full_attention", {{"rope_type", "default"}}}}}},
       "rope_scaling.full_attention is object; positions that differ by layer"},
      {kLlama, {{"rope_theta", 1}}, "rope_theta must be a number above 1"},
      {kLlama, {{"rms_norm_eps", 0}}, "rms_norm_eps must be a number above 0 and is 0"},
      {kLlama,
       {{"num_key_value_heads", 5}},
       "heads (32) must be a multiple of key/value heads (5)"},
      {kLlama, {{"hidden_size", 4090}}, "hidden size (4090) must be a multiple of heads (32)"},
      {kLlama,
       {{"num_attention_heads", 1}, {"num_key_value_heads", 1}},
       "heads have 4096 channels"},
      {kLlama, {{"head_dim", 7}}, "heads have 7 channels; rotary positions need an even number"},
      {kLlama, {{"intermediate_size", nullptr}}, "intermediate_size must be a whole number"},
      {kLlama, {{"tie_word_embeddings", "yes"}}, "tie_word_embeddings must be true or false"},
      {kLlama, {{"attention_dropout", "x"}}, "attention_dropout is \"x\", which is no number"},
      {kMistral, {{"sliding_window", -1}}, "sliding_window must be a whole number"},
      {kQwen3, {{"attention_bias", true}}, "attention_bias is true"},
  };
  for (const Case& wrong : cases) {
    EXPECT_PRED2(mentions, refusal(changed(wrong.text, wrong.changes)), wrong.part);
  }
  const std::string both =
      refusal(changed(kLlama, {{"hidden_act", "relu"}, {"attention_bias", true}}));
  EXPECT_PRED2(mentions, both, "hidden_act");
  EXPECT_PRED2(mentions, both, "attention_bias");
  EXPECT_TRUE(parse_hf_config(changed(kLlama, {{"attention_dropout", 0.1}})).has_dropout);
}

}  // namespace
}  // namespace strata::models
