// The families that can be trained, each with what tells it apart: the one list of them.
#pragma once

#include <array>

#include "models/model_config.h"

namespace strata::models {

struct FamilyTraits {
  Family family;
  const char* name;          // in specs, and config.json's model_type
  const char* architecture;  // in config.json's architectures: the model with its head
  NormKind norm;
  MlpKind mlp;
  Biases biases;
  QkNorm qk_norm;
};

inline constexpr std::array kFamilies = {
    FamilyTraits{Family::gpt2, "gpt2", "GPT2LMHeadModel", NormKind::layer_norm, MlpKind::gelu,
                 Biases::all, QkNorm::none},
    FamilyTraits{Family::llama, "llama", "LlamaForCausalLM", NormKind::rms_norm, MlpKind::swiglu,
                 Biases::none, QkNorm::none},
    FamilyTraits{Family::mistral, "mistral", "MistralForCausalLM", NormKind::rms_norm,
                 MlpKind::swiglu, Biases::none, QkNorm::none},
    FamilyTraits{Family::qwen2, "qwen2", "Qwen2ForCausalLM", NormKind::rms_norm, MlpKind::swiglu,
                 Biases::qkv, QkNorm::none},
    FamilyTraits{Family::qwen3, "qwen3", "Qwen3ForCausalLM", NormKind::rms_norm, MlpKind::swiglu,
                 Biases::none, QkNorm::per_head}};

const FamilyTraits& traits_of(Family family);

}  // namespace strata::models
