// How Hugging Face stores the tensors of a model: their names and shapes in model files.
//
//   gpt2     our names behind "transformer."; linear layers are Conv1D, whose weights are (in,
//   out);
//            ours are (out, in), so those are transposed on their way
//   others   our names behind "model."; linear layers are as ours
//   a head of its own is "lm_head.weight" in both; a tied one is not stored again
//
// Our names tell the families apart (model_units.h).
// Source: transformers, models/*/modeling_*.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::models {

inline constexpr std::string_view kHeadWeight = "lm_head.weight";

// Ours are row-major (rows, columns), of vectors (1, columns); in a model file they are as `shape`.
struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;
};

// Of a whole tensor with our name ("h.0.attn.c_attn.weight", "layers.0.mlp.up_proj.weight").
HfTensor hf_tensor(std::string_view name, std::int64_t rows, std::int64_t columns);

// Its shape in our orientation: vectors have one dimension.
std::vector<std::int64_t> tensor_shape(std::string_view name, std::int64_t rows,
                                       std::int64_t columns);

// A stored name as ours: without the prefix, which folders of a model without its head lack.
std::string_view without_hf_prefix(std::string_view stored);

// Of our names: whether it is a constant that old versions stored beside the weights, a mask of
// attention or the frequencies of rotary positions.
bool is_hf_buffer(std::string_view name);

// Of our names: whether it is the table that a tied head is.
bool is_token_table(std::string_view name);

}  // namespace strata::models
