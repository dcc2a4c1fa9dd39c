// How Hugging Face stores a GPT-2: the names and shapes of tensors in model files, and config.json.
//
// Linear layers of its GPT-2 are Conv1D, whose weights are (in, out); ours are (out, in), so those
// are transposed on their way.
// Source: transformers, models/gpt2/modeling_gpt2.py (GPT2LMHeadModel), whose head is the token
// table and not stored again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/dtype.h"
#include "models/model_config.h"

namespace strata::models {

// Ours are row-major (rows, columns), of vectors (1, columns); in a model file they are as `shape`.
struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;
};

// Of a whole tensor with our name ("h.0.attn.c_attn.weight").
HfTensor hf_tensor(std::string_view name, std::int64_t rows, std::int64_t columns);

// Its shape in our orientation: vectors have one dimension.
std::vector<std::int64_t> tensor_shape(std::string_view name, std::int64_t rows,
                                       std::int64_t columns);

// The text of config.json; `dtype`: of the weights beside it.
std::string hf_config_text(const ModelConfig& config, Dtype dtype);

}  // namespace strata::models
