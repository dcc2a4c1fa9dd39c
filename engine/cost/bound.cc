#include "engine/cost/bound.h"

#include <algorithm>

#include "models/decoder_block.h"
#include "models/output_head.h"

namespace strata::engine {

namespace {

using offload::Link;
using ops::MatmulKind;

// Seconds of each kind of matmul for `rows` rows through a list of linear layers.
class MatmulSeconds {
 public:
  MatmulSeconds(const MachineRates& rates, double rows) : rates_(rates), rows_(rows) {}

  double of(const std::vector<ops::MatmulShape>& shapes, MatmulKind kind) const {
    double seconds = 0;
    for (const ops::MatmulShape& shape : shapes) {
      if (shape.kind == kind) seconds += of(shape);
    }
    return seconds;
  }

  double of(const ops::MatmulShape& shape) const {
    const double flops = 2 * rows_ * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    for (const ops::MatmulChoice& choice : rates_.matmuls) {
      if (choice.kind == shape.kind && choice.n == shape.n && choice.k == shape.k) {
        return flops / choice.flops_per_s;
      }
    }
    return flops / rates_.matmul_peak_flops_per_s();
  }

 private:
  const MachineRates& rates_;
  double rows_;
};

struct ComputeSeconds {
  double forward = 0;
  double backward = 0;  // with recompute
  double flops = 0;     // useful ones: no recompute
};

ComputeSeconds compute_seconds(const RunSetup& setup, const MachineRates& rates) {
  const auto layers = static_cast<double>(setup.model.layers);
  const std::int64_t sequences = setup.batch.sequences(setup.topology.rank);
  const models::Batch batch{sequences, setup.batch.seq_len};
  const models::DecoderBlock block(setup.model, setup.shape.precision, batch);
  const models::OutputHead head(setup.model, setup.shape.precision, setup.shape.micro_batch);
  const auto blocks = block.matmul_shapes();
  const MatmulSeconds matmul(rates, static_cast<double>(batch.rows()));

  double linear_flops = 0;
  for (const ops::MatmulShape& shape : blocks) {
    if (shape.kind != MatmulKind::forward) continue;
    linear_flops +=
        2.0 * static_cast<double>(batch.rows()) * static_cast<double>(shape.n * shape.k);
  }
  const double attention =
      (block.forward_flops(batch) - linear_flops) / rates.matmul_peak_flops_per_s();
  const double block_forward = matmul.of(blocks, MatmulKind::forward);
  const double block_backward = matmul.of(blocks, MatmulKind::backward_input) +
                                matmul.of(blocks, MatmulKind::backward_weight);
  const double head_share = head.forward_flops(batch) / rates.matmul_peak_flops_per_s();

  ComputeSeconds seconds;
  seconds.forward = layers * (block_forward + attention) + head_share;
  // Backward attention: scores again, and four products of the same size as the forward's two.
  seconds.backward = layers * (block_backward + 2.5 * attention) + 3 * head_share;
  if (setup.shape.recompute) {
    const double last = matmul.of(
        {MatmulKind::forward, setup.model.hidden, setup.model.intermediate, batch.rows()});
    seconds.backward += layers * (block_forward - last + attention);
  }
  seconds.flops = 3 * (layers * block.forward_flops(batch) + head.forward_flops(batch));
  return seconds;
}

}  // namespace

const char* StepBound::limit() const {
  double cores = 0;
  for (const PhaseBound& phase : phases) {
    if (phase.cores_s >= phase.nvme_s) cores += phase.seconds();
  }
  return 2 * cores >= seconds() ? "the cores" : "NVMe";
}

StepBound step_bound(const RunSetup& setup, const MachineRates& rates) {
  const ComputeSeconds compute = compute_seconds(setup, rates);
  StepBound bound;
  const auto over = [](std::int64_t bytes, double bytes_per_s) {
    return bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0.0;
  };
  for (std::size_t p = 0; p < bound.phases.size(); ++p) {
    const offload::PhaseTraffic& traffic = setup.plan.traffic[p];
    PhaseBound& phase = bound.phases[p];
    phase.nvme_s = rates.nvme.seconds(static_cast<double>(traffic.bytes(Link::nvme_read)),
                                      static_cast<double>(traffic.bytes(Link::nvme_written)));
    const std::int64_t copied =
        2 * (traffic.bytes(Link::to_device) + traffic.bytes(Link::from_device) +
             traffic.bytes(Link::gathered) + traffic.bytes(Link::reduced));
    phase.cores_s = over(traffic.optimizer_bytes + copied, rates.memory_bytes_per_s);
  }
  bound.phases[0].cores_s += compute.forward;
  bound.phases[1].cores_s += compute.backward;
  bound.flops = compute.flops;
  return bound;
}

}  // namespace strata::engine
