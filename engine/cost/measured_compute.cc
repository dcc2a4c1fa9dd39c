#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/cost/compute_cost.h"
#include "engine/cost/work_meter.h"
#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"
#include "kernels/ops/embedding.h"
#include "models/carver.h"
#include "models/decoder_block.h"
#include "models/output_head.h"

namespace strata::engine {

namespace {

using models::Batch;
using models::Carver;
using ops::Into;
using ops::Matrix;

constexpr double kMicroBatchSeconds = 0.4;  // of a layer and the head, once; beyond, it is a part
constexpr float kWeightScale = 0.05f;
constexpr float kGradientScale = 1e-3f;

// Numbers in [-scale, scale).
void fill_random(CpuDevice& device, const Matrix& numbers, float scale) {
  constexpr std::int64_t kTile = 1 << 16;
  const std::int64_t count = numbers.rows * numbers.cols;
  device.workers().parallel_for(ceil_div(count, kTile), [&](std::int64_t tile, int) {
    SplitMix64 random{static_cast<std::uint64_t>(tile)};
    for (std::int64_t i = tile * kTile; i < std::min(count, (tile + 1) * kTile); ++i) {
      const float x = scale * (static_cast<float>(random() >> 40) * 0x1p-23f - 1);
      if (numbers.dtype == Dtype::f32) {
        static_cast<float*>(numbers.data)[i] = x;
      } else {
        static_cast<bf16*>(numbers.data)[i] = {
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
      }
    }
  });
}

void fill_zero(const Matrix& numbers) {
  std::memset(numbers.data, 0, static_cast<std::size_t>(numbers.span_bytes()));
}

// What all measurements have: (B, T) and where rows are in their sequences.
struct Inputs {
  Inputs(Carver& carver, const PassShape& shape, Batch limits)
      : batch(limits),
        positions(reinterpret_cast<std::int32_t*>(carver.take(4 * limits.rows()))),
        ids(reinterpret_cast<std::int32_t*>(carver.take(4 * limits.rows()))),
        x(carver.take_matrix(shape.precision, limits.rows(), shape.config.hidden)),
        dx(carver.take_matrix(shape.precision, limits.rows(), shape.config.hidden)) {
    batch.positions = positions;
  }

  void fill(CpuDevice& device, const PassShape& shape) const {
    SplitMix64 random{1};
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      positions[row] = static_cast<std::int32_t>(row % batch.tokens);
      ids[row] =
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(shape.config.vocabulary));
    }
    fill_random(device, x, 1);
    fill_random(device, dx, kGradientScale);
  }

  Batch batch;
  std::int32_t* positions;
  std::int32_t* ids;  // tokens, targets
  Matrix x;           // (B·T, C)
  Matrix dx;          // (B·T, C)
};

struct BlockMemory {
  BlockMemory(Carver& carver, const PassShape& shape, Batch limits)
      : inputs(carver, shape, limits) {
    const models::ModelConfig& config = shape.config;
    const std::int64_t elements = models::block_unit(config, 0).spec.elements;
    weights = carver.take_matrix(shape.precision, 1, elements);
    gradients = carver.take_matrix(Dtype::f32, 1, elements);
    const models::DecoderBlock sizes(config, shape.precision, limits);
    saved = carver.take(sizes.saved_bytes());
    workspace = carver.take(sizes.workspace_bytes());
    if (!config.rotary) return;
    angles = carver.take_matrix(Dtype::f32, limits.tokens, config.head_dim);
    const auto* const cos = static_cast<const float*>(angles.data);
    rotary = {cos, cos + limits.tokens * config.head_dim / 2, limits.tokens, config.head_dim};
  }

  Inputs inputs;
  Matrix weights;
  Matrix gradients;
  std::byte* saved;
  std::byte* workspace;
  Matrix angles;  // cos, then sin: any numbers cost the same
  ops::RotaryTables rotary;
};

// Of the largest unit of a table, and the final norm.
struct HeadMemory {
  HeadMemory(Carver& carver, const PassShape& shape, Batch limits) : inputs(carver, shape, limits) {
    const models::ModelConfig& config = shape.config;
    const models::OutputHead sizes(config, shape.precision, limits);
    const std::int64_t rows = std::min(models::table_chunk_rows(config), config.vocabulary);
    const std::int64_t norm_elements = models::final_norm_unit(config).elements;
    table = carver.take_matrix(shape.precision, rows, config.hidden);
    dtable = carver.take_matrix(Dtype::f32, rows, config.hidden);
    norm = carver.take_matrix(shape.precision, 1, norm_elements);
    dnorm = carver.take_matrix(Dtype::f32, 1, norm_elements);
    rows_memory.normed = carver.take(sizes.normed_bytes());
    rows_memory.dnormed = carver.take(sizes.dnormed_bytes());
    rows_memory.rows = carver.take(sizes.rows_bytes());
    workspace = carver.take(sizes.workspace_bytes());
    loss_sum = reinterpret_cast<double*>(carver.take(sizeof(double)));
  }

  Inputs inputs;
  Matrix table;
  Matrix dtable;
  Matrix norm;
  Matrix dnorm;
  models::HeadMemory rows_memory;
  std::byte* workspace;
  double* loss_sum;
};

class ComputeMeasurement {
 public:
  ComputeMeasurement(const RunSetup& setup, CpuDevice& device)
      : setup_(setup),
        shape_(setup.shape),
        device_(device),
        meter_(device),
        into_(setup.shape.micro_batches_max == 1 ? Into::overwrite : Into::add) {}

  ComputeCost run() {
    const Batch full = shape_.micro_batch;
    const std::int64_t sequences = measured_sequences();
    ComputeCost cost;
    measure_block({sequences, full.tokens}, cost);
    measure_head_and_tables({sequences, full.tokens}, cost);
    const double scale = static_cast<double>(full.sequences) / static_cast<double>(sequences);
    for (WorkSeconds* const part : cost.parts()) *part = *part * scale;
    return cost;
  }

 private:
  // body(block, memory), with a block in memory that is filled.
  template <typename Body>
  auto with_block(Batch limits, const Body& body) {
    const DeviceBuffer buffer =
        device_.allocate("measurement", models::layout_bytes<BlockMemory>(shape_, limits));
    const auto memory = models::lay_out<BlockMemory>(buffer.data(), shape_, limits);
    memory.inputs.fill(device_, shape_);
    fill_random(device_, memory.weights, kWeightScale);
    fill_zero(memory.gradients);
    if (memory.angles.rows > 0) fill_random(device_, memory.angles, 1);
    return body(models::DecoderBlock(shape_.config, shape_.precision, limits, memory.rotary),
                memory);
  }

  // As many as take about kMicroBatchSeconds, by the forward of one: backward is two of them,
  // recompute nearly one and the head some more.
  std::int64_t measured_sequences() {
    constexpr double kForwards = 5;
    const Batch one{1, shape_.micro_batch.tokens};
    const double seconds =
        with_block(one, [&](const models::DecoderBlock& block, const BlockMemory& memory) {
          return meter_.fastest([&](Stream& stream) { forward(block, memory, stream); }).total();
        });
    const double affordable = kMicroBatchSeconds / (kForwards * seconds);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(affordable, 1e9)), 1,
                                    shape_.micro_batch.sequences);
  }

  static void forward(const models::DecoderBlock& block, const BlockMemory& memory,
                      Stream& stream) {
    block.forward(stream, memory.inputs.batch, static_cast<const std::byte*>(memory.weights.data),
                  memory.inputs.x.data, memory.saved, memory.inputs.dx.data);
  }

  void measure_block(Batch limits, ComputeCost& cost) {
    with_block(limits, [&](const models::DecoderBlock& block, const BlockMemory& memory) {
      const Inputs& inputs = memory.inputs;
      const auto* const weights = static_cast<const std::byte*>(memory.weights.data);
      cost.block_forward = meter_.fastest([&](Stream& stream) { forward(block, memory, stream); });
      if (shape_.recompute) {
        cost.block_recompute = meter_.fastest([&](Stream& stream) {
          block.recompute(stream, inputs.batch, weights, inputs.x.data, memory.saved);
        });
      }
      fill_random(device_, inputs.dx, kGradientScale);  // forward's output lay there
      cost.block_backward = meter_.fastest([&](Stream& stream) {
        block.backward(stream, inputs.batch, weights, static_cast<float*>(memory.gradients.data),
                       into_, inputs.x.data, memory.saved, inputs.dx.data, inputs.dx.data,
                       memory.workspace);
      });
    });
  }

  void measure_head_and_tables(Batch limits, ComputeCost& cost) {
    const DeviceBuffer buffer =
        device_.allocate("measurement", models::layout_bytes<HeadMemory>(shape_, limits));
    const auto memory = models::lay_out<HeadMemory>(buffer.data(), shape_, limits);
    memory.inputs.fill(device_, shape_);
    fill_random(device_, memory.table, kWeightScale);
    fill_random(device_, memory.norm, 1);
    fill_zero(memory.dtable);
    fill_zero(memory.dnorm);
    *memory.loss_sum = 0;
    measure_head(limits, memory, cost);
    measure_tables(memory, cost);
  }

  // The head's work is that of its chunks, whose rows add up to the vocabulary.
  void measure_head(Batch limits, const HeadMemory& memory, ComputeCost& cost) {
    const models::OutputHead head(shape_.config, shape_.precision, limits);
    const Inputs& inputs = memory.inputs;
    const auto* const table = static_cast<const std::byte*>(memory.table.data);
    const auto* const norm = static_cast<const std::byte*>(memory.norm.data);
    const double chunks =
        static_cast<double>(shape_.config.vocabulary) / static_cast<double>(memory.table.rows);
    const models::HeadMemory& rows = memory.rows_memory;
    cost.head_forward = meter_.fastest([&](Stream& stream) {
      head.final_norm_forward(stream, inputs.batch, norm, inputs.x.data, rows);
    });
    cost.head_forward += meter_.fastest([&](Stream& stream) {
      head.chunk_forward(stream, inputs.batch, table, 0, memory.table.rows, rows, inputs.ids,
                         memory.workspace);
    }) * chunks;
    cost.head_forward += meter_.fastest([&](Stream& stream) {
      head.finish_loss(stream, inputs.batch, rows, inputs.ids, memory.loss_sum);
    });
    cost.head_backward = meter_.fastest([&](Stream& stream) {
      head.chunk_backward(stream, inputs.batch, table, static_cast<float*>(memory.dtable.data),
                          into_, 0, memory.table.rows, rows, inputs.ids, kGradientScale,
                          memory.workspace);
    }) * chunks;
    cost.head_backward += meter_.fastest([&](Stream& stream) {
      head.final_norm_backward(stream, inputs.batch, norm, static_cast<float*>(memory.dnorm.data),
                               into_, inputs.x.data, rows, inputs.dx.data);
    });
  }

  // Every chunk of a table looks at every row, for those that are its own.
  void measure_tables(const HeadMemory& memory, ComputeCost& cost) {
    const Inputs& inputs = memory.inputs;
    const auto chunks = static_cast<double>(setup_.index.token_chunks.size());
    cost.embedding_forward = meter_.fastest([&](Stream& stream) {
      ops::embedding_forward(stream, inputs.x, Into::add, inputs.ids, memory.table, 0);
    }) * chunks;
    cost.embedding_backward = meter_.fastest([&](Stream& stream) {
      ops::embedding_backward(stream, memory.dtable, into_, inputs.dx, inputs.ids, 0);
    }) * chunks;
    if (!setup_.index.learned_positions()) return;
    const std::int64_t positions = std::min(inputs.batch.tokens, memory.table.rows);
    Matrix table = memory.table;
    Matrix dtable = memory.dtable;
    table.rows = dtable.rows = positions;
    cost.embedding_forward += meter_.fastest([&](Stream& stream) {
      ops::embedding_forward(stream, inputs.x, Into::overwrite, inputs.positions, table, 0);
    });
    cost.embedding_backward += meter_.fastest([&](Stream& stream) {
      ops::embedding_backward(stream, dtable, into_, inputs.dx, inputs.positions, 0);
    });
  }

  const RunSetup& setup_;
  const PassShape& shape_;
  CpuDevice& device_;
  WorkMeter meter_;
  Into into_;
};

}  // namespace

ComputeCost measure_compute(const RunSetup& setup, CpuDevice& device) {
  return ComputeMeasurement(setup, device).run();
}

}  // namespace strata::engine
