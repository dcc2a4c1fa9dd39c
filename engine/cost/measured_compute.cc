#include <algorithm>
#include <vector>

#include "engine/cost/compute_cost.h"
#include "engine/cost/operand_fill.h"
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
constexpr std::int64_t kPartMin = 2;        // sequences: two sizes tell what grows with them
constexpr float kWeightScale = 0.05f;
constexpr float kGradientScale = 1e-3f;

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

  void fill(OperandFill& fill, const PassShape& shape) const {
    SplitMix64 random{1};
    std::vector<std::int32_t> row_positions;
    std::vector<std::int32_t> row_ids;
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      row_positions.push_back(static_cast<std::int32_t>(row % batch.tokens));
      row_ids.push_back(static_cast<std::int32_t>(
          random() % static_cast<std::uint64_t>(shape.config.vocabulary)));
    }
    fill.write(positions, row_positions);
    fill.write(ids, row_ids);
    fill.random(x, 1);
    fill.random(dx, kGradientScale);
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

// Adds so many times what `some` takes longer than `fewer`. What does not grow with sequences, as
// the gradients of weights that are read and written once, is so not counted again.
void extrapolate(const WorkSeconds& fewer, double factor, WorkSeconds& some) {
  for (std::size_t i = 0; i < some.of.size(); ++i) {
    some.of[i] += factor * std::max(0.0, some.of[i] - fewer.of[i]);
  }
}

class ComputeMeasurement {
 public:
  ComputeMeasurement(const RunSetup& setup, Device& device, const OpCost& op_cost)
      : setup_(setup),
        shape_(setup.shape),
        device_(device),
        fill_(setup, device),
        meter_(device, op_cost),
        overwritten_(overwritten_share(setup)) {}

  ComputeCost run() {
    const Batch full = shape_.micro_batch;
    const std::int64_t sequences = measured_sequences();
    ComputeCost cost = measure({sequences, full.tokens});
    if (sequences == full.sequences) return cost;
    const std::int64_t fewer = sequences / 2;
    const ComputeCost half = measure({fewer, full.tokens});
    const double factor =
        static_cast<double>(full.sequences - sequences) / static_cast<double>(sequences - fewer);
    for (std::size_t i = 0; i < ComputeCost::kParts; ++i) {
      extrapolate(*half.parts()[i], factor, *cost.parts()[i]);
    }
    return cost;
  }

 private:
  // body(block, memory), with a block in memory that is filled.
  template <typename Body>
  auto with_block(Batch limits, const Body& body) {
    const DeviceBuffer buffer =
        device_.allocate("measurement", models::layout_bytes<BlockMemory>(shape_, limits));
    fill_.zero(buffer);
    const auto memory = models::lay_out<BlockMemory>(buffer.data(), shape_, limits);
    memory.inputs.fill(fill_, shape_);
    fill_.random(memory.weights, kWeightScale);
    if (memory.angles.rows > 0) fill_.random(memory.angles, 1);
    return body(models::DecoderBlock(shape_.config, shape_.precision, limits, memory.rotary),
                memory);
  }

  ComputeCost measure(Batch limits) {
    ComputeCost cost;
    measure_block(limits, cost);
    measure_head_and_tables(limits, cost);
    cost.slowdown = meter_.slowdown();
    return cost;
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
    const double affordable = std::min(kMicroBatchSeconds / (kForwards * seconds), 1e9);
    return std::min(std::max(kPartMin, static_cast<std::int64_t>(affordable)),
                    shape_.micro_batch.sequences);
  }

  // backward(stream, into) as a micro-batch of the step has it on average: the first one of a pass
  // overwrites the gradients of weights, the others add to them.
  template <typename Backward>
  WorkSeconds fastest_backward(const Backward& backward) {
    const auto measure = [&](Into into, double share) {
      if (share == 0) return WorkSeconds{};
      return meter_.fastest([&](Stream& stream) { backward(stream, into); }) * share;
    };
    WorkSeconds mean = measure(Into::overwrite, overwritten_);
    mean += measure(Into::add, 1 - overwritten_);
    return mean;
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
      fill_.random(inputs.dx, kGradientScale);  // forward's output lay there
      cost.block_backward = fastest_backward([&](Stream& stream, Into into) {
        block.backward(stream, inputs.batch, weights, static_cast<float*>(memory.gradients.data),
                       into, inputs.x.data, memory.saved, inputs.dx.data, inputs.x.data,
                       memory.workspace);
      });
    });
  }

  void measure_head_and_tables(Batch limits, ComputeCost& cost) {
    const DeviceBuffer buffer =
        device_.allocate("measurement", models::layout_bytes<HeadMemory>(shape_, limits));
    fill_.zero(buffer);
    const auto memory = models::lay_out<HeadMemory>(buffer.data(), shape_, limits);
    memory.inputs.fill(fill_, shape_);
    fill_.random(memory.table, kWeightScale);
    fill_.random(memory.norm, 1);
    measure_head(limits, memory, cost);
    measure_tables(memory, cost);
  }

  // Of the vocabulary, of which the last one may be smaller.
  double chunks_of(const Matrix& table) const {
    return static_cast<double>(shape_.config.vocabulary) / static_cast<double>(table.rows);
  }

  void measure_head(Batch limits, const HeadMemory& memory, ComputeCost& cost) {
    const models::OutputHead head(shape_.config, shape_.precision, limits);
    const Inputs& inputs = memory.inputs;
    const auto* const table = static_cast<const std::byte*>(memory.table.data);
    const auto* const norm = static_cast<const std::byte*>(memory.norm.data);
    const double chunks = chunks_of(memory.table);
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
    cost.head_backward =
        fastest_backward([&](Stream& stream, Into into) {
          head.chunk_backward(stream, inputs.batch, table, static_cast<float*>(memory.dtable.data),
                              into, 0, memory.table.rows, rows, inputs.ids, kGradientScale,
                              memory.workspace);
        }) *
        chunks;
    cost.head_backward += fastest_backward([&](Stream& stream, Into into) {
      head.final_norm_backward(stream, inputs.batch, norm, static_cast<float*>(memory.dnorm.data),
                               into, inputs.x.data, rows, inputs.dx.data);
    });
  }

  // Every chunk of a table looks at every row, for those that are its own.
  void measure_tables(const HeadMemory& memory, ComputeCost& cost) {
    const Inputs& inputs = memory.inputs;
    const double chunks = chunks_of(memory.table);
    const Into first = setup_.index.learned_positions() ? Into::add : Into::overwrite;
    cost.embedding_forward = meter_.fastest([&](Stream& stream) {
      ops::embedding_forward(stream, inputs.x, first, inputs.ids, memory.table, 0);
    }) * chunks;
    cost.embedding_backward =
        fastest_backward([&](Stream& stream, Into into) {
          ops::embedding_backward(stream, memory.dtable, into, inputs.dx, inputs.ids, 0);
        }) *
        chunks;
    if (!setup_.index.learned_positions()) return;
    const std::int64_t positions = std::min(inputs.batch.tokens, memory.table.rows);
    Matrix table = memory.table;
    Matrix dtable = memory.dtable;
    table.rows = dtable.rows = positions;
    cost.embedding_forward += meter_.fastest([&](Stream& stream) {
      ops::embedding_forward(stream, inputs.x, Into::overwrite, inputs.positions, table, 0);
    });
    cost.embedding_backward += fastest_backward([&](Stream& stream, Into into) {
      ops::embedding_backward(stream, dtable, into, inputs.dx, inputs.positions, 0);
    });
  }

  const RunSetup& setup_;
  const PassShape& shape_;
  Device& device_;
  OperandFill fill_;
  WorkMeter meter_;
  double overwritten_;
};

}  // namespace

double overwritten_share(const RunSetup& setup) {
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, setup.batch.micro_batches(setup.topology.rank));
  return static_cast<double>(ceil_div(micro_batches, setup.batch.pass_size)) /
         static_cast<double>(micro_batches);
}

ComputeCost measure_compute(const RunSetup& setup, Device& device, const OpCost& op_cost) {
  return ComputeMeasurement(setup, device, op_cost).run();
}

}  // namespace strata::engine
