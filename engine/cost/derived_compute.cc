// derive_compute(): a roofline. A matrix product takes as long as its FLOPs or its operands' bytes,
// whichever is longer; everything else is passes over memory.

#include <algorithm>
#include <vector>

#include "engine/cost/compute_cost.h"
#include "models/decoder_block.h"
#include "models/output_head.h"

namespace strata::engine {

namespace {

using ops::MatmulKind;
using ops::MatmulShape;

// What computes: the GPU, or all cores.
class Roofline {
 public:
  explicit Roofline(const MachineRates& rates)
      : flops_per_s_(rates.gpu ? rates.gpu->flops_per_s : rates.matmul_peak_flops_per_s()),
        bytes_per_s_(rates.gpu ? rates.gpu->memory_bytes_per_s : rates.memory_bytes_per_s) {}

  double compute_s(double flops) const { return flops / flops_per_s_; }
  double memory_s(double bytes) const { return bytes / bytes_per_s_; }
  // `element_bytes`: of the operands. Gradients of weights are f32 and added to.
  double matmul_s(const MatmulShape& shape, double element_bytes) const {
    const auto m = static_cast<double>(shape.rows);
    const auto n = static_cast<double>(shape.n);
    const auto k = static_cast<double>(shape.k);
    const double weight_bytes = shape.kind == MatmulKind::backward_weight ? 2 * 4 : element_bytes;
    return std::max(compute_s(2 * m * n * k),
                    memory_s(element_bytes * (m * n + m * k) + weight_bytes * n * k));
  }
  double matmuls_s(const std::vector<MatmulShape>& shapes, MatmulKind kind,
                   double element_bytes) const {
    double seconds = 0;
    for (const MatmulShape& shape : shapes) {
      if (shape.kind == kind) seconds += matmul_s(shape, element_bytes);
    }
    return seconds;
  }

 private:
  double flops_per_s_;
  double bytes_per_s_;
};

// Elements that the element-wise ops of a block read and write, per row.
struct BlockPasses {
  double norm = 0;  // one of the two
  double norm_backward = 0;
  double residual = 0;  // one of the two
  double rotary = 0;
  double activation = 0;
  double activation_backward = 0;
  double bias_backward = 0;       // gradients of biases are sums over the rows
  double attention_backward = 0;  // of out · dout

  explicit BlockPasses(const models::ModelConfig& config) {
    const auto hidden = static_cast<double>(config.hidden);
    const auto intermediate = static_cast<double>(config.intermediate);
    const auto channels = static_cast<double>(config.channels());
    const auto kv_channels = static_cast<double>(config.kv_channels());
    const bool gated = config.mlp == models::MlpKind::swiglu;
    norm = 2 * hidden;
    norm_backward = 4 * hidden;  // the input, its gradient read and written, the output's
    residual = 3 * hidden;
    if (config.rotary) rotary = 2 * (channels + kv_channels);
    activation = (gated ? 3 : 2) * intermediate;
    activation_backward = (gated ? 5 : 3) * intermediate;
    if (config.biases != models::Biases::none) bias_backward += channels + 2 * kv_channels;
    if (config.biases == models::Biases::all) bias_backward += 2 * hidden + intermediate;
    attention_backward = 2 * channels;
  }
  double forward() const { return 2 * norm + 2 * residual + rotary + activation; }
  double recompute() const { return forward() - residual; }
  double backward() const {
    return 2 * norm_backward + rotary + activation_backward + bias_backward + attention_backward;
  }
};

void derive_block(const RunSetup& setup, const Roofline& roofline, ComputeCost& cost) {
  const models::Batch batch = setup.shape.micro_batch;
  const auto element_bytes = static_cast<double>(bytes_of(setup.shape.precision));
  const models::DecoderBlock block(setup.model, setup.shape.precision, batch);
  const std::vector<MatmulShape> shapes = block.matmul_shapes();
  const auto matmuls = [&](MatmulKind kind) {
    return roofline.matmuls_s(shapes, kind, element_bytes);
  };
  double linear_flops = 0;
  for (const MatmulShape& shape : shapes) {
    if (shape.kind != MatmulKind::forward) continue;
    linear_flops += 2 * static_cast<double>(shape.rows) * static_cast<double>(shape.n * shape.k);
  }
  const double attention_s = roofline.compute_s(block.forward_flops(batch) - linear_flops);
  const BlockPasses passes(setup.model);
  const auto elementwise = [&](double elements_per_row) {
    return roofline.memory_s(static_cast<double>(batch.rows()) * elements_per_row * element_bytes);
  };
  cost.block_forward = {{matmuls(MatmulKind::forward), attention_s, elementwise(passes.forward())}};
  // Scores again, and four products of the same size as the forward's two.
  cost.block_backward = {
      {matmuls(MatmulKind::backward_input) + matmuls(MatmulKind::backward_weight),
       2.5 * attention_s, elementwise(passes.backward())}};
  if (!setup.shape.recompute) return;
  const MatmulShape output = {MatmulKind::forward, setup.model.hidden, setup.model.intermediate,
                              batch.rows()};
  cost.block_recompute = {{matmuls(MatmulKind::forward) - roofline.matmul_s(output, element_bytes),
                           attention_s, elementwise(passes.recompute())}};
}

// The logits of a chunk are written and read once in each of the two walks over the chunks, and in
// the second one their gradients, too.
void derive_head(const RunSetup& setup, const Roofline& roofline, ComputeCost& cost) {
  const models::Batch batch = setup.shape.micro_batch;
  const models::OutputHead head(setup.model, setup.shape.precision, batch);
  const auto element_bytes = static_cast<double>(bytes_of(setup.shape.precision));
  const auto rows = static_cast<double>(batch.rows());
  const double logits = rows * static_cast<double>(setup.model.vocabulary);
  const BlockPasses passes(setup.model);
  const double product_s = roofline.compute_s(head.forward_flops(batch));
  const auto elementwise = [&](double elements) {
    return roofline.memory_s(elements * element_bytes);
  };
  cost.head_forward[Work::matmul] = product_s;
  cost.head_forward[Work::elementwise] = elementwise(rows * passes.norm + 2 * logits);
  cost.head_backward[Work::matmul] = 3 * product_s;  // the logits again, and two gradients
  cost.head_backward[Work::elementwise] = elementwise(rows * passes.norm_backward + 4 * logits);
}

void derive_embedding(const RunSetup& setup, const Roofline& roofline, ComputeCost& cost) {
  const auto element_bytes = static_cast<double>(bytes_of(setup.shape.precision));
  const auto elements = static_cast<double>(setup.shape.micro_batch.rows() * setup.model.hidden);
  const double tables = setup.model.learned_positions() ? 2 : 1;
  cost.embedding_forward[Work::elementwise] =
      roofline.memory_s((tables + 1) * elements * element_bytes);
  // Rows of a gradient in f32, read and written.
  cost.embedding_backward[Work::elementwise] =
      roofline.memory_s(tables * elements * (element_bytes + 2 * 4));
}

}  // namespace

ComputeCost derive_compute(const RunSetup& setup, const MachineRates& rates) {
  const Roofline roofline(rates);
  ComputeCost cost;
  derive_block(setup, roofline, cost);
  derive_head(setup, roofline, cost);
  derive_embedding(setup, roofline, cost);
  return cost;
}

}  // namespace strata::engine
