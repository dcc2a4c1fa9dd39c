#include "models/hf_tensors.h"

#include <gtest/gtest.h>

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
      {"embed_tokens.weight", 256, 24, {"model.embed_tokens.weight", {256, 24}, false}},
      {"layers.3.self_attn.q_proj.weight",
       32,
       24,
       {"model.layers.3.self_attn.q_proj.weight", {32, 24}, false}},
      {"layers.3.self_attn.q_proj.bias",
       1,
       32,
       {"model.layers.3.self_attn.q_proj.bias", {32}, false}},
      {"layers.3.self_attn.k_norm.weight",
       1,
       8,
       {"model.layers.3.self_attn.k_norm.weight", {8}, false}},
      {"layers.3.post_attention_layernorm.weight",
       1,
       24,
       {"model.layers.3.post_attention_layernorm.weight", {24}, false}},
      {"layers.3.mlp.up_proj.weight", 1, 24, {"model.layers.3.mlp.up_proj.weight", {1, 24}, false}},
      {"norm.weight", 1, 24, {"model.norm.weight", {24}, false}},
      {"lm_head.weight", 256, 24, {"lm_head.weight", {256, 24}, false}},
  };
  for (const Expected& expected : kExpected) {
    const HfTensor tensor = hf_tensor(expected.ours, expected.rows, expected.columns);
    EXPECT_EQ(tensor.name, expected.theirs.name);
    EXPECT_EQ(tensor.shape, expected.theirs.shape) << tensor.name;
    EXPECT_EQ(tensor.transposed, expected.theirs.transposed) << tensor.name;
  }
  EXPECT_EQ(tensor_shape("h.0.mlp.c_fc.weight", 96, 24), (std::vector<std::int64_t>{96, 24}));
}

TEST(HfTensors, PrefixesMayBeMissing) {
  EXPECT_EQ(without_hf_prefix("transformer.h.0.ln_1.weight"), "h.0.ln_1.weight");
  EXPECT_EQ(without_hf_prefix("model.norm.weight"), "norm.weight");
  EXPECT_EQ(without_hf_prefix("norm.weight"), "norm.weight");
  EXPECT_EQ(without_hf_prefix("lm_head.weight"), "lm_head.weight");
}

TEST(HfTensors, BuffersAreNoParameters) {
  for (const char* const name : {"h.0.attn.bias", "h.11.attn.masked_bias", "rotary_emb.inv_freq",
                                 "layers.31.self_attn.rotary_emb.inv_freq"}) {
    EXPECT_TRUE(is_hf_buffer(name)) << name;
  }
  for (const char* const name :
       {"h.attn.bias", "h.0.attn.c_attn.bias", "h.0.attn.bias.bias", "h.x.attn.bias", "h.", "h.0",
        "layers.0.self_attn.q_proj.bias", "layers.self_attn.rotary_emb.inv_freq"}) {
    EXPECT_FALSE(is_hf_buffer(name)) << name;
  }
}

}  // namespace
}  // namespace strata::models
