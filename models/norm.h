// The norm of a model, LayerNorm or RMSNorm, behind one forward and one backward. Rows are
// normalised whole (QK-norm is the block's own call of rmsnorm).
#pragma once

#include "kernels/ops/layernorm.h"
#include "kernels/ops/rmsnorm.h"
#include "models/carver.h"
#include "models/model_config.h"
#include "models/resident_unit.h"

namespace strata::models {

// Of M rows, kept for the backward. An RMSNorm leaves `mean` alone.
struct NormStatistics {
  float* mean = nullptr;
  float* rstd = nullptr;

  static NormStatistics take(Carver& carver, std::int64_t rows) {
    return {carver.take_f32(rows), carver.take_f32(rows)};
  }
};

class Norm {
 public:
  explicit Norm(const ModelConfig& config)
      : kind_(config.norm), epsilon_(static_cast<float>(config.norm_epsilon)) {}

  // x, y (M, C).
  void forward(Stream& stream, ops::Matrix y, NormStatistics statistics, ops::Matrix x,
               const ResidentWeights& w, TensorRun weight, TensorRun bias) const {
    if (kind_ == NormKind::layer_norm) {
      ops::layernorm_forward(stream, y, statistics.mean, statistics.rstd, x, w.vector(weight),
                             w.vector(bias));
    } else {
      ops::rmsnorm_forward(stream, y, statistics.rstd, x, w.matrix(weight), epsilon_);
    }
  }

  // dx (M, C) = or +=; with Into::overwrite it may be x.
  void backward(Stream& stream, ops::Matrix dx, ops::Into dx_into, const ResidentGradients& g,
                ops::Into parameters, ops::Matrix dy, ops::Matrix x, const ResidentWeights& w,
                TensorRun weight, TensorRun bias, NormStatistics statistics) const {
    if (kind_ == NormKind::layer_norm) {
      ops::layernorm_backward(stream, dx, dx_into, g.vector(weight), g.vector(bias), parameters, dy,
                              x, w.vector(weight), statistics.mean, statistics.rstd);
    } else {
      ops::rmsnorm_backward(stream, dx, dx_into, g.matrix(weight), parameters, dy, x,
                            w.matrix(weight), statistics.rstd);
    }
  }

 private:
  NormKind kind_;
  float epsilon_;
};

}  // namespace strata::models
