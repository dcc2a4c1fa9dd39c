// ResidentModel: a whole small model of any family in device memory, driven from the host in the
// order of a training step: unit after unit, every micro-batch in each; backward recomputes each
// block from its input, and its gradient takes the input's place.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/ops/embedding.h"
#include "models/decoder_block.h"
#include "models/model_units.h"
#include "models/output_head.h"
#include "tests/support/test_device.h"

namespace strata::models {

struct Arithmetic {
  Dtype activations = Dtype::f32;
  Dtype matmul = Dtype::f32;
};

// How a step's work is cut.
struct Cut {
  std::vector<std::int64_t> micro_batches;  // sequences of each
  std::vector<std::int64_t> chunks;         // vocabulary rows of each
};

class ResidentModel {
 public:
  // `limits`: the largest micro-batch. `weights`: the values of the tensor of a name.
  ResidentModel(const ModelConfig& config, Arithmetic arithmetic, Batch limits,
                const std::function<std::span<const float>(const std::string&)>& weights,
                int threads = 2)
      : config_(config),
        dtype_(arithmetic.activations),
        limits_(limits),
        device_(ops_limits(config, limits), arithmetic.matmul, threads),
        rotary_(make_rotary(config, limits)),
        block_(config, dtype_, limits, rotary_tables(config, limits)),
        head_(config, dtype_, limits),
        saved_(device_.allocate(block_.saved_bytes())),
        recomputed_out_(device_.allocate(activation_bytes())),
        workspace_(device_.allocate(std::max(block_.workspace_bytes(), head_.workspace_bytes()))),
        loss_(device_.allocate(sizeof(double))) {
    for (const UnitSpec& spec : model_units(config)) {
      std::vector<float> values(static_cast<std::size_t>(spec.elements), 0.0f);
      for (const TensorSpec& tensor : spec.tensors) {
        std::ranges::copy(
            weights(tensor.name).subspan(tensor.first_row * tensor.cols, tensor.elements()),
            values.begin() + tensor.offset_elements);
      }
      // Gradients start as NaN: what is to be overwritten must be.
      const std::vector<float> nan(values.size(), std::numeric_limits<float>::quiet_NaN());
      units_.push_back({spec, device_.upload(values, dtype_), device_.upload(nan)});
    }
    STRATA_CHECK(units_.front().spec.tensors.front().rows == config.vocabulary, "one table unit");
    first_block_ = config.learned_positions() ? 2 : 1;
  }

  // (B, T) of all micro-batches.
  struct Input {
    std::span<const std::int32_t> tokens;
    std::span<const std::int32_t> targets;
    std::int64_t tokens_per_sequence = 0;
    std::span<const std::int32_t> document_starts;  // empty: a sequence is one document
  };

  // Returns the sum of the losses; gradients() are then those of this sum × scale.
  double step(const Cut& cut, const Input& input, float scale) {
    start(cut, input);
    forward(cut);
    backward(cut, scale);
    return device_.read<double>(loss_.data(), 1).front();
  }

  // Logits (rows, V) of the last step's micro-batch.
  std::vector<float> logits(const Cut& cut, std::size_t micro_batch) {
    const MicroBatch& micro = micros_[micro_batch];
    const DeviceBuffer row_logits = device_.allocate(config_.vocabulary * bytes_of(Dtype::f32));
    std::vector<float> logits;
    for (std::int64_t row = 0; row < micro.batch.rows(); ++row) {
      auto* out = reinterpret_cast<float*>(row_logits.data());
      for_each_chunk(cut, [&](std::int64_t first_id, std::int64_t rows) {
        head_.logits_of_row(device_.stream(), table_row(first_id), rows, micro.head_memory(), row,
                            out + first_id);
      });
      const auto values = device_.read<float>(out, config_.vocabulary);
      logits.insert(logits.end(), values.begin(), values.end());
    }
    return logits;
  }

  // Each unit's flat gradient, by the unit's name.
  std::map<std::string, std::vector<float>> gradients() {
    std::map<std::string, std::vector<float>> result;
    for (const Unit& unit : units_) {
      result[unit.spec.name] = device_.read<float>(unit.gradients.data(), unit.spec.elements);
    }
    return result;
  }

 private:
  struct Unit {
    UnitSpec spec;
    DeviceBuffer weights;
    DeviceBuffer gradients;
    float* gradient() const { return reinterpret_cast<float*>(gradients.data()); }
  };
  struct MicroBatch {
    Batch batch;
    DeviceBuffer tokens;
    DeviceBuffer targets;
    DeviceBuffer positions;
    DeviceBuffer document_starts;
    std::vector<DeviceBuffer> inputs;  // of block 0 … L-1 and of the final norm; later, dx
    DeviceBuffer normed;
    DeviceBuffer dnormed;
    DeviceBuffer row_values;
    HeadMemory head_memory() const { return {normed.data(), dnormed.data(), row_values.data()}; }
    const std::int32_t* ids() const { return reinterpret_cast<std::int32_t*>(tokens.data()); }
    const std::int32_t* next() const { return reinterpret_cast<std::int32_t*>(targets.data()); }
  };

  static ops::CpuOpsLimits ops_limits(const ModelConfig& config, Batch limits) {
    const std::int64_t widest = std::max(
        {2 * config.intermediate, config.hidden, config.channels() + 2 * config.kv_channels()});
    return {.weight_rows_max = std::max(widest, config.vocabulary),
            .weight_cols_max = widest,
            .rows_max = limits.rows(),
            .tokens_max = limits.tokens,
            .head_dim = config.head_dim,
            .heads_per_kv_head = config.heads / config.kv_heads};
  }
  std::int64_t activation_bytes() const {
    return limits_.rows() * config_.hidden * bytes_of(dtype_);
  }
  const Unit& table() const { return units_.front(); }
  const Unit& positions() const { return units_[1]; }
  const Unit& block(std::int64_t layer) const { return units_[first_block_ + layer]; }
  const Unit& final_norm() const { return units_[first_block_ + config_.layers]; }
  bool tied() const { return config_.head == HeadKind::tied; }
  const Unit& head_table() const { return tied() ? table() : units_.back(); }
  const std::byte* table_row(std::int64_t id) const {
    return head_table().weights.data() + id * config_.hidden * bytes_of(dtype_);
  }
  float* table_gradient_row(std::int64_t id) const {
    return head_table().gradient() + id * config_.hidden;
  }
  DeviceBuffer make_rotary(const ModelConfig& config, Batch limits) {
    if (!config.rotary) return {};
    std::vector<float> tables(static_cast<std::size_t>(limits.tokens * config.head_dim));
    const std::size_t half = tables.size() / 2;
    fill_rotary_tables(*config.rotary, std::span(tables).first(half), std::span(tables).last(half));
    return device_.upload(tables);
  }
  ops::RotaryTables rotary_tables(const ModelConfig& config, Batch limits) const {
    if (!config.rotary) return {};
    const auto* const cos = reinterpret_cast<const float*>(rotary_.data());
    return {cos, cos + limits.tokens * config.head_dim / 2, limits.tokens, config.head_dim};
  }
  // (rows, C) of activations or weights.
  ops::Matrix matrix(std::byte* data, std::int64_t rows) const {
    return ops::Matrix::dense(data, dtype_, rows, config_.hidden);
  }
  ops::Matrix gradient_matrix(const Unit& unit, std::int64_t rows) const {
    return ops::Matrix::dense(unit.gradient(), Dtype::f32, rows, config_.hidden);
  }
  static ops::Into into(std::size_t micro) {
    return micro == 0 ? ops::Into::overwrite : ops::Into::add;
  }

  template <typename Body>
  void for_each_chunk(const Cut& cut, const Body& body) const {
    std::int64_t first_id = 0;
    for (const std::int64_t rows : cut.chunks) {
      body(first_id, rows);
      first_id += rows;
    }
    STRATA_CHECK(first_id == config_.vocabulary);
  }

  void start(const Cut& cut, const Input& input) {
    device_.stream().fill_zero(loss_.data(), sizeof(double));
    micros_.clear();
    std::int64_t first = 0;
    for (const std::int64_t sequences : cut.micro_batches) {
      MicroBatch& micro = micros_.emplace_back();
      micro.batch = {sequences, input.tokens_per_sequence};
      upload_documents(micro, input, first);
      micro.tokens = device_.upload(input.tokens.subspan(first, micro.batch.rows()));
      micro.targets = device_.upload(input.targets.subspan(first, micro.batch.rows()));
      for (std::int64_t i = 0; i <= config_.layers; ++i) {
        micro.inputs.push_back(device_.allocate(activation_bytes()));
      }
      micro.normed = device_.allocate(head_.normed_bytes());
      micro.dnormed = device_.allocate(head_.dnormed_bytes());
      micro.row_values = device_.allocate(head_.rows_bytes());
      first += micro.batch.rows();
    }
  }

  // `first`: row of the micro-batch among all.
  void upload_documents(MicroBatch& micro, const Input& input, std::int64_t first) {
    std::vector<std::int32_t> positions;
    for (std::int64_t row = 0; row < micro.batch.rows(); ++row) {
      const auto place = static_cast<std::int32_t>(row % input.tokens_per_sequence);
      const bool packed = !input.document_starts.empty();
      positions.push_back(packed ? place - input.document_starts[first + row] : place);
    }
    micro.positions = device_.upload(positions);
    micro.batch.positions = reinterpret_cast<const std::int32_t*>(micro.positions.data());
    if (input.document_starts.empty()) return;
    micro.document_starts =
        device_.upload(input.document_starts.subspan(first, micro.batch.rows()));
    micro.batch.document_starts =
        reinterpret_cast<const std::int32_t*>(micro.document_starts.data());
  }

  void forward(const Cut& cut) {
    Stream& stream = device_.stream();
    for (const MicroBatch& micro : micros_) {
      const ops::Matrix x = matrix(micro.inputs[0].data(), micro.batch.rows());
      if (config_.learned_positions()) {
        ops::embedding_forward(stream, x, ops::Into::overwrite, micro.batch.positions,
                               matrix(positions().weights.data(), config_.context), 0);
      }
      ops::embedding_forward(stream, x,
                             config_.learned_positions() ? ops::Into::add : ops::Into::overwrite,
                             micro.ids(), matrix(table().weights.data(), config_.vocabulary), 0);
    }
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      for (const MicroBatch& micro : micros_) {
        block_.forward(stream, micro.batch, block(layer).weights.data(), micro.inputs[layer].data(),
                       saved_.data(), micro.inputs[layer + 1].data());
      }
    }
    for (const MicroBatch& micro : micros_) {
      head_.final_norm_forward(stream, micro.batch, final_norm().weights.data(),
                               micro.inputs.back().data(), micro.head_memory());
    }
    for_each_chunk(cut, [&](std::int64_t first_id, std::int64_t rows) {
      for (const MicroBatch& micro : micros_) {
        head_.chunk_forward(stream, micro.batch, table_row(first_id), first_id, rows,
                            micro.head_memory(), micro.next(), workspace_.data());
      }
    });
    for (const MicroBatch& micro : micros_) {
      head_.finish_loss(stream, micro.batch, micro.head_memory(), micro.next(),
                        reinterpret_cast<double*>(loss_.data()));
    }
  }

  void backward(const Cut& cut, float scale) {
    Stream& stream = device_.stream();
    for_each_chunk(cut, [&](std::int64_t first_id, std::int64_t rows) {
      for (std::size_t i = 0; i < micros_.size(); ++i) {
        const MicroBatch& micro = micros_[i];
        head_.chunk_backward(stream, micro.batch, table_row(first_id), table_gradient_row(first_id),
                             into(i), first_id, rows, micro.head_memory(), micro.next(), scale,
                             workspace_.data());
      }
    });
    for (std::size_t i = 0; i < micros_.size(); ++i) {
      const MicroBatch& micro = micros_[i];
      std::byte* const x = micro.inputs.back().data();
      head_.final_norm_backward(stream, micro.batch, final_norm().weights.data(),
                                final_norm().gradient(), into(i), x, micro.head_memory(), x);
    }
    for (std::int64_t layer = config_.layers - 1; layer >= 0; --layer) {
      for (std::size_t i = 0; i < micros_.size(); ++i) block_backward(layer, i);
    }
    for (std::size_t i = 0; i < micros_.size(); ++i) {
      const MicroBatch& micro = micros_[i];
      const ops::Matrix dx = matrix(micro.inputs[0].data(), micro.batch.rows());
      if (config_.learned_positions()) {
        ops::embedding_backward(stream, gradient_matrix(positions(), config_.context), into(i), dx,
                                micro.batch.positions, 0);
      }
      ops::embedding_backward(stream, gradient_matrix(table(), config_.vocabulary),
                              tied() ? ops::Into::add : into(i), dx, micro.ids(), 0);
    }
  }

  void block_backward(std::int64_t layer, std::size_t index) {
    const MicroBatch& micro = micros_[index];
    const Unit& unit = block(layer);
    std::byte* const x = micro.inputs[layer].data();
    block_.forward(device_.stream(), micro.batch, unit.weights.data(), x, saved_.data(),
                   recomputed_out_.data());
    block_.backward(device_.stream(), micro.batch, unit.weights.data(), unit.gradient(),
                    into(index), x, saved_.data(), micro.inputs[layer + 1].data(), x,
                    workspace_.data());
  }

  ModelConfig config_;
  Dtype dtype_;
  Batch limits_;
  strata::testing::TestDevice device_;
  DeviceBuffer rotary_;
  DecoderBlock block_;
  OutputHead head_;
  std::vector<Unit> units_;
  std::int64_t first_block_ = 0;
  DeviceBuffer saved_;
  DeviceBuffer recomputed_out_;  // nobody reads it
  DeviceBuffer workspace_;
  DeviceBuffer loss_;
  std::vector<MicroBatch> micros_;
};

}  // namespace strata::models
