#include "models/model_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/base/bytes.h"

namespace strata::models {
namespace {

constexpr float kInitialStd = 0.02f;

// How one family calls its tensors. "" where no family of that kind has one.
struct Names {
  const char* table;
  const char* positions;
  const char* block;
  const char* final_norm;
  const char* norm1;
  const char* attention_out;
  const char* norm2;
  const char* mlp_out;
};
constexpr Names kGpt2Names{"wte", "wpe", "h", "ln_f", "ln_1", "attn.c_proj", "ln_2", "mlp.c_proj"};
// Of llama, mistral, qwen2 and qwen3.
constexpr Names kLlamaLikeNames{"embed_tokens",
                                "",
                                "layers",
                                "norm",
                                "input_layernorm",
                                "self_attn.o_proj",
                                "post_attention_layernorm",
                                "mlp.down_proj"};
constexpr const char* kHeadTable = "lm_head";

const Names& names_of(const ModelConfig& config) {
  return config.family == Family::gpt2 ? kGpt2Names : kLlamaLikeNames;
}

enum class Start : std::uint8_t { aligned, right_after };  // of a tensor, after the one before it

TensorSpec& append(UnitSpec& unit, std::string name, std::int64_t rows, std::int64_t cols,
                   Start start = Start::aligned) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.offset_elements =
      start == Start::aligned ? round_up(unit.elements, kTensorAlignmentElements) : unit.elements;
  unit.elements = tensor.offset_elements + tensor.elements();
  return unit.tensors.emplace_back(std::move(tensor));
}

void make_matrix(TensorSpec& tensor, float initial_std) {
  tensor.decay = true;
  tensor.initial = Initial::normal;
  tensor.initial_std = initial_std;
}

// Appends the tensors of a block to its unit, in their order.
class BlockBuilder {
 public:
  BlockBuilder(const ModelConfig& config, std::int64_t layer)
      : config_(config),
        prefix_(fmt::format("{}.{}", names_of(config).block, layer)),
        block_{{prefix_, UnitRole::block, 0, {}}, {}} {}

  BlockUnit build() {
    const Names& names = names_of(config_);
    const std::int64_t c = config_.hidden;
    BlockTensors& tensors = block_.tensors;
    // GPT-2's scheme: the 2 L projections that add to the residual stream share its variance.
    const float residual_std = kInitialStd / std::sqrt(2.0f * static_cast<float>(config_.layers));
    const bool output_biases = config_.biases == Biases::all;
    norm(names.norm1, tensors.norm1_weight, tensors.norm1_bias);
    qkv();
    linear({{names.attention_out, c}}, config_.channels(), residual_std, output_biases,
           tensors.attention_out_weight, tensors.attention_out_bias);
    norm(names.norm2, tensors.norm2_weight, tensors.norm2_bias);
    mlp_in();
    linear({{names.mlp_out, c}}, config_.intermediate, residual_std, output_biases,
           tensors.mlp_out_weight, tensors.mlp_out_bias);
    return std::move(block_);
  }

 private:
  struct Part {
    const char* name;
    std::int64_t rows;
  };

  std::string full(const char* name, const char* kind) const {
    return fmt::format("{}.{}.{}", prefix_, name, kind);
  }

  void vector(const char* name, const char* kind, std::int64_t elements, Initial initial,
              TensorRun& run) {
    run = {block_.spec.tensors.size(), 1};
    append(block_.spec, full(name, kind), 1, elements).initial = initial;
  }

  void norm(const char* name, TensorRun& weight, TensorRun& bias) {
    vector(name, "weight", config_.hidden, Initial::ones, weight);
    if (config_.norm == NormKind::layer_norm)
      vector(name, "bias", config_.hidden, Initial::zeros, bias);
  }

  // Layers of the same input as one; `columns`: of the input.
  void linear(const std::vector<Part>& parts, std::int64_t columns, float initial_std, bool biased,
              TensorRun& weight, TensorRun& bias) {
    const auto start = [&](const Part& part) {
      return &part == parts.data() ? Start::aligned : Start::right_after;
    };
    weight = {block_.spec.tensors.size(), parts.size()};
    for (const Part& part : parts) {
      make_matrix(append(block_.spec, full(part.name, "weight"), part.rows, columns, start(part)),
                  initial_std);
    }
    if (!biased) return;
    bias = {block_.spec.tensors.size(), parts.size()};
    for (const Part& part : parts) {
      append(block_.spec, full(part.name, "bias"), 1, part.rows, start(part)).initial =
          Initial::zeros;
    }
  }

  void qkv() {
    BlockTensors& tensors = block_.tensors;
    const std::int64_t q = config_.channels();
    const std::int64_t kv = config_.kv_channels();
    const std::vector<Part> parts =
        config_.family == Family::gpt2
            ? std::vector<Part>{{"attn.c_attn", q + 2 * kv}}
            : std::vector<Part>{
                  {"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}};
    linear(parts, config_.hidden, kInitialStd, config_.biases != Biases::none, tensors.qkv_weight,
           tensors.qkv_bias);
    if (config_.qk_norm == QkNorm::none) return;
    vector("self_attn.q_norm", "weight", config_.head_dim, Initial::ones, tensors.q_norm);
    vector("self_attn.k_norm", "weight", config_.head_dim, Initial::ones, tensors.k_norm);
  }

  void mlp_in() {
    BlockTensors& tensors = block_.tensors;
    const std::int64_t f = config_.intermediate;
    const std::vector<Part> parts =
        config_.mlp == MlpKind::gelu ? std::vector<Part>{{"mlp.c_fc", f}}
                                     : std::vector<Part>{{"mlp.gate_proj", f}, {"mlp.up_proj", f}};
    linear(parts, config_.hidden, kInitialStd, config_.biases == Biases::all, tensors.mlp_in_weight,
           tensors.mlp_in_bias);
  }

  const ModelConfig& config_;
  std::string prefix_;
  BlockUnit block_;
};

UnitSpec table_unit(std::string name, UnitRole role, const std::string& table,
                    std::int64_t first_row, std::int64_t rows, std::int64_t cols) {
  UnitSpec unit{std::move(name), role, 0, {}};
  TensorSpec& tensor = append(unit, table + ".weight", rows, cols);
  make_matrix(tensor, kInitialStd);
  tensor.first_row = first_row;
  return unit;
}

// A table over the vocabulary, chunk after chunk.
void append_vocabulary(std::vector<UnitSpec>& units, const ModelConfig& config, UnitRole role,
                       const char* table) {
  const std::int64_t chunk_rows = table_chunk_rows(config);
  for (std::int64_t first = 0; first < config.vocabulary; first += chunk_rows) {
    units.push_back(table_unit(fmt::format("{}.{}", table, first / chunk_rows), role, table, first,
                               std::min(chunk_rows, config.vocabulary - first), config.hidden));
  }
}

}  // namespace

std::int64_t table_chunk_rows(const ModelConfig& config) {
  const std::int64_t rows = kTableChunkElements / config.hidden;
  const std::int64_t whole = rows - rows % kTensorAlignmentElements;
  return std::max(whole, kTensorAlignmentElements);
}

BlockUnit block_unit(const ModelConfig& config, std::int64_t layer) {
  return BlockBuilder(config, layer).build();
}

UnitSpec final_norm_unit(const ModelConfig& config) {
  const std::string name = names_of(config).final_norm;
  UnitSpec unit{name, UnitRole::final_norm, 0, {}};
  append(unit, name + ".weight", 1, config.hidden).initial = Initial::ones;
  if (config.norm == NormKind::layer_norm)
    append(unit, name + ".bias", 1, config.hidden).initial = Initial::zeros;
  return unit;
}

std::vector<UnitSpec> model_units(const ModelConfig& config) {
  const Names& names = names_of(config);
  std::vector<UnitSpec> units;
  append_vocabulary(units, config, UnitRole::token_table, names.table);
  if (config.learned_positions()) {
    units.push_back(table_unit(names.positions, UnitRole::position_table, names.positions, 0,
                               config.context, config.hidden));
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    units.push_back(block_unit(config, layer).spec);
  }
  units.push_back(final_norm_unit(config));
  if (config.head == HeadKind::untied) {
    append_vocabulary(units, config, UnitRole::head_table, kHeadTable);
  }
  return units;
}

}  // namespace strata::models
