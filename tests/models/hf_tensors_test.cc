#include "models/hf_tensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/presets.h"

namespace strata::models {
namespace {

TEST(HfTensors, NamesShapesAndOrientationAreThoseOfTransformers) {
  struct Expected {
    const char* ours;
    std::int64_t rows, columns;
    HfTensor theirs;
  };
  const Expected kExpected[] = {
      {"wte.weight", 256, 24, {"transformer.wte.weight", {256, 24}, false}},
      {"wpe.weight", 1, 24, {"transformer.wpe.weight", {1, 24}, false}},
      {"h.3.attn.c_attn.weight", 72, 24, {"transformer.h.3.attn.c_attn.weight", {24, 72}, true}},
      {"h.3.attn.c_proj.weight", 24, 24, {"transformer.h.3.attn.c_proj.weight", {24, 24}, true}},
      {"h.3.mlp.c_fc.weight", 96, 24, {"transformer.h.3.mlp.c_fc.weight", {24, 96}, true}},
      {"h.3.mlp.c_fc.bias", 1, 96, {"transformer.h.3.mlp.c_fc.bias", {96}, false}},
      {"ln_f.weight", 1, 24, {"transformer.ln_f.weight", {24}, false}},
  };
  for (const Expected& expected : kExpected) {
    const HfTensor tensor = hf_tensor(expected.ours, expected.rows, expected.columns);
    EXPECT_EQ(tensor.name, expected.theirs.name);
    EXPECT_EQ(tensor.shape, expected.theirs.shape) << tensor.name;
    EXPECT_EQ(tensor.transposed, expected.theirs.transposed) << tensor.name;
  }
  EXPECT_EQ(tensor_shape("h.0.mlp.c_fc.weight", 96, 24), (std::vector<std::int64_t>{96, 24}));
}

TEST(HfTensors, ConfigDescribesTheModel) {
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
