// How transformers calls the families: model_type is name_of(), the class of the model with its
// head stands in "architectures".
#pragma once

#include <array>

#include "models/model_config.h"

namespace strata::models {

struct HfFamily {
  Family family;
  const char* architecture;
};

inline constexpr std::array kHfFamilies = {
    HfFamily{Family::gpt2, "GPT2LMHeadModel"}, HfFamily{Family::llama, "LlamaForCausalLM"},
    HfFamily{Family::mistral, "MistralForCausalLM"}, HfFamily{Family::qwen2, "Qwen2ForCausalLM"},
    HfFamily{Family::qwen3, "Qwen3ForCausalLM"}};

}  // namespace strata::models
