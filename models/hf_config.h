// A Hugging Face config.json as a model that can be trained here, and back: gpt2, llama, mistral,
// qwen2 and qwen3.
//
// Whatever changes the mathematics is what our kernels compute, or refused by name, never
// approximated; other keys are not looked at. Pure functions; they trust nothing.
// Source: transformers, models/*/configuration_*.py, whose defaults hold for what is missing, but
// for sizes, which have to be there.
#pragma once

#include <string>
#include <string_view>

#include "kernels/base/dtype.h"
#include "models/model_config.h"

namespace strata::models {

struct HfModel {
  ModelConfig config;  // without a name
  // Was trained with dropout; here it is trained without.
  bool has_dropout = false;
};

// Throws ConfigError for a model that is not supported and FormatError for what is no such file,
// both without its name; all that is not supported in one error.
HfModel parse_hf_config(std::string_view json);

// The text of config.json; `dtype`: of the weights beside it.
std::string hf_config_text(const ModelConfig& config, Dtype dtype);

// The text of config.json beside exported weights of `dtype`: hf_config_text()'s, with the other
// fields of the model's own `original`, which parse_hf_config() accepts.
std::string merged_hf_config(const ModelConfig& config, Dtype dtype, std::string_view original);

}  // namespace strata::models
