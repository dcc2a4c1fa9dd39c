#include "models/hf_tensors.h"

#include <algorithm>
#include <array>
#include <span>

namespace strata::models {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kPrefix = "model.";
constexpr std::array<std::string_view, 4> kGpt2Starts = {"wte.", "wpe.", "h.", "ln_f."};
constexpr std::array<std::string_view, 3> kConv1dSuffixes = {".c_attn.weight", ".c_proj.weight",
                                                             ".c_fc.weight"};
// ln_1, ln_2, ln_f; norm, q_norm, input_layernorm, …
constexpr std::array<std::string_view, 4> kNormSuffixes = {"ln_1.weight", "ln_2.weight",
                                                           "ln_f.weight", "norm.weight"};

bool starts_with_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.starts_with(part); });
}
bool ends_with_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.ends_with(part); });
}

// Of "h.12.attn.bias" and `blocks` "h.": "attn.bias"; "" for other names.
std::string_view in_block(std::string_view name, std::string_view blocks) {
  if (!name.starts_with(blocks)) return "";
  name.remove_prefix(blocks.size());
  const std::size_t digits = name.find_first_not_of("0123456789");
  const bool has_number = digits != 0 && digits != std::string_view::npos && name[digits] == '.';
  return has_number ? name.substr(digits + 1) : "";
}

}  // namespace

std::vector<std::int64_t> tensor_shape(std::string_view name, std::int64_t rows,
                                       std::int64_t columns) {
  const bool is_vector = name.ends_with(".bias") || ends_with_any(name, kNormSuffixes);
  if (is_vector) return {columns};
  return {rows, columns};
}

HfTensor hf_tensor(std::string_view name, std::int64_t rows, std::int64_t columns) {
  const std::string_view prefix = name == kHeadWeight                  ? ""
                                  : starts_with_any(name, kGpt2Starts) ? kGpt2Prefix
                                                                       : kPrefix;
  HfTensor tensor{std::string(prefix) + std::string(name), tensor_shape(name, rows, columns),
                  ends_with_any(name, kConv1dSuffixes)};
  if (tensor.transposed) std::ranges::reverse(tensor.shape);
  return tensor;
}

std::string_view without_hf_prefix(std::string_view stored) {
  for (const std::string_view prefix : {kGpt2Prefix, kPrefix}) {
    if (stored.starts_with(prefix)) return stored.substr(prefix.size());
  }
  return stored;
}

bool is_hf_buffer(std::string_view name) {
  const std::string_view gpt2 = in_block(name, "h.");
  return gpt2 == "attn.bias" || gpt2 == "attn.masked_bias" || name == "rotary_emb.inv_freq" ||
         in_block(name, "layers.") == "self_attn.rotary_emb.inv_freq";
}

bool is_token_table(std::string_view name) {
  return name == "wte.weight" || name == "embed_tokens.weight";
}

}  // namespace strata::models
