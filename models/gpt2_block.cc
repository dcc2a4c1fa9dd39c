#include "models/gpt2_block.h"

#include "kernels/base/error.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/linear.h"
#include "models/carver.h"
#include "models/resident_unit.h"

namespace strata::models {
namespace {

using ops::Into;
using ops::Matrix;

constexpr std::int64_t kMlpRatio = 4;

// What forward() leaves for backward(); M = B·T rows.
struct Saved {
  float* mean1;        // (M)
  float* rstd1;        // (M)
  Matrix normed1;      // (M, C)
  Matrix qkv;          // (M, 3C)
  float* log_sum_exp;  // (B, H, T)
  Matrix attended;     // (M, C)
  Matrix residual;     // (M, C), the block's r
  float* mean2;        // (M)
  float* rstd2;        // (M)
  Matrix normed2;      // (M, C)
  Matrix mlp_in;       // (M, 4C), before the gelu
  Matrix mlp_out;      // (M, 4C), after it

  Saved(Carver& carver, const Gpt2Config& config, Dtype dtype, Batch batch) {
    const std::int64_t m = batch.rows();
    const std::int64_t c = config.hidden;
    mean1 = carver.take_f32(m);
    rstd1 = carver.take_f32(m);
    normed1 = carver.take_matrix(dtype, m, c);
    qkv = carver.take_matrix(dtype, m, 3 * c);
    log_sum_exp = carver.take_f32(m * config.heads);
    attended = carver.take_matrix(dtype, m, c);
    residual = carver.take_matrix(dtype, m, c);
    mean2 = carver.take_f32(m);
    rstd2 = carver.take_f32(m);
    normed2 = carver.take_matrix(dtype, m, c);
    mlp_in = carver.take_matrix(dtype, m, kMlpRatio * c);
    mlp_out = carver.take_matrix(dtype, m, kMlpRatio * c);
  }
};

// Scratch of backward().
struct Workspace {
  Matrix dresidual;  // (M, C): the gradient along the residual stream, from dout to dx
  Matrix dbranch;    // (M, C): at the input or output of a branch
  Matrix dmlp;       // (M, 4C)
  Matrix dqkv;       // (M, 3C), in the memory of dmlp
  float* row_dots;   // (B, H, T)

  Workspace(Carver& carver, const Gpt2Config& config, Dtype dtype, Batch batch) {
    const std::int64_t m = batch.rows();
    const std::int64_t c = config.hidden;
    dresidual = carver.take_matrix(dtype, m, c);
    dbranch = carver.take_matrix(dtype, m, c);
    dmlp = carver.take_matrix(dtype, m, kMlpRatio * c);
    dqkv = Matrix::dense(dmlp.data, dtype, m, 3 * c);
    row_dots = carver.take_f32(m * config.heads);
  }
};

ops::AttentionShape attention_shape(const Gpt2Config& config, Batch batch) {
  return {.batch = batch.sequences,
          .tokens = batch.tokens,
          .heads = config.heads,
          .kv_heads = config.heads,
          .head_dim = config.head_dim()};
}

void check_batch(Batch batch, Batch limits) {
  STRATA_CHECK(batch.sequences >= 1 && batch.sequences <= limits.sequences && batch.tokens >= 1 &&
                   batch.tokens <= limits.tokens,
               "a batch of {} x {} tokens, made for {} x {}", batch.sequences, batch.tokens,
               limits.sequences, limits.tokens);
}

}  // namespace

Gpt2Block::Gpt2Block(const Gpt2Config& config, Dtype dtype, Batch limits)
    : config_(config), dtype_(dtype), limits_(limits), unit_(gpt2_block_unit(config, 0)) {
  saved_bytes_ = layout_bytes<Saved>(config_, dtype_, limits_);
  workspace_bytes_ = layout_bytes<Workspace>(config_, dtype_, limits_);
}

void Gpt2Block::recompute(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                          std::byte* saved) const {
  check_batch(batch, limits_);
  const ResidentWeights w(unit_, dtype_, weights);
  Carver carver(saved);
  const Saved s(carver, config_, dtype_, batch);
  const Matrix input = read_only(x, dtype_, batch.rows(), config_.hidden);

  ops::layernorm_forward(stream, s.normed1, s.mean1, s.rstd1, input, w.vector(kLn1Weight),
                         w.vector(kLn1Bias));
  ops::linear_forward(stream, s.qkv, s.normed1, w.matrix(kAttentionInWeight),
                      w.vector(kAttentionInBias));
  const ops::AttentionShape shape = attention_shape(config_, batch);
  ops::attention_forward(stream, shape, {}, s.attended, s.log_sum_exp, ops::unpack(shape, s.qkv));
  ops::linear_forward(stream, s.residual, s.attended, w.matrix(kAttentionOutWeight),
                      w.vector(kAttentionOutBias));
  ops::add(stream, s.residual, s.residual, input);

  ops::layernorm_forward(stream, s.normed2, s.mean2, s.rstd2, s.residual, w.vector(kLn2Weight),
                         w.vector(kLn2Bias));
  ops::linear_forward(stream, s.mlp_in, s.normed2, w.matrix(kMlpInWeight), w.vector(kMlpInBias));
  ops::gelu_forward(stream, s.mlp_out, s.mlp_in);
}

void Gpt2Block::forward(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                        std::byte* saved, void* out) const {
  recompute(stream, batch, weights, x, saved);
  const ResidentWeights w(unit_, dtype_, weights);
  Carver carver(saved);
  const Saved s(carver, config_, dtype_, batch);
  const Matrix output = Matrix::dense(out, dtype_, batch.rows(), config_.hidden);
  ops::linear_forward(stream, output, s.mlp_out, w.matrix(kMlpOutWeight), w.vector(kMlpOutBias));
  ops::add(stream, output, output, s.residual);
}

void Gpt2Block::backward(Stream& stream, Batch batch, const std::byte* weights, float* gradients,
                         Into into, const void* x, const std::byte* saved, const void* dout,
                         void* dx, std::byte* workspace) const {
  check_batch(batch, limits_);
  const ResidentWeights w(unit_, dtype_, weights);
  const ResidentGradients g(unit_, gradients);
  const auto s = lay_out<Saved>(const_cast<std::byte*>(saved), config_, dtype_, batch);
  const auto d = lay_out<Workspace>(workspace, config_, dtype_, batch);
  const std::int64_t m = batch.rows();
  const Matrix input = read_only(x, dtype_, m, config_.hidden);
  const Matrix doutput = read_only(dout, dtype_, m, config_.hidden);
  if (into == Into::overwrite) g.zero_gaps(stream);

  stream.copy(d.dresidual.data, dout, d.dresidual.span_bytes());
  ops::linear_backward_weight(stream, g.matrix(kMlpOutWeight), g.vector(kMlpOutBias), doutput,
                              s.mlp_out, into);
  ops::linear_backward_input(stream, d.dmlp, doutput, w.matrix(kMlpOutWeight), Into::overwrite);
  ops::gelu_backward(stream, d.dmlp, d.dmlp, s.mlp_in);
  ops::linear_backward_weight(stream, g.matrix(kMlpInWeight), g.vector(kMlpInBias), d.dmlp,
                              s.normed2, into);
  ops::linear_backward_input(stream, d.dbranch, d.dmlp, w.matrix(kMlpInWeight), Into::overwrite);
  ops::layernorm_backward(stream, d.dresidual, Into::add, g.vector(kLn2Weight), g.vector(kLn2Bias),
                          into, d.dbranch, s.residual, w.vector(kLn2Weight), s.mean2, s.rstd2);

  ops::linear_backward_weight(stream, g.matrix(kAttentionOutWeight), g.vector(kAttentionOutBias),
                              d.dresidual, s.attended, into);
  ops::linear_backward_input(stream, d.dbranch, d.dresidual, w.matrix(kAttentionOutWeight),
                             Into::overwrite);
  const ops::AttentionShape shape = attention_shape(config_, batch);
  ops::attention_backward(stream, shape, {}, ops::unpack(shape, d.dqkv), d.row_dots, d.dbranch,
                          ops::unpack(shape, s.qkv), s.attended, s.log_sum_exp);
  ops::linear_backward_weight(stream, g.matrix(kAttentionInWeight), g.vector(kAttentionInBias),
                              d.dqkv, s.normed1, into);
  ops::linear_backward_input(stream, d.dbranch, d.dqkv, w.matrix(kAttentionInWeight),
                             Into::overwrite);
  ops::layernorm_backward(stream, d.dresidual, Into::add, g.vector(kLn1Weight), g.vector(kLn1Bias),
                          into, d.dbranch, input, w.vector(kLn1Weight), s.mean1, s.rstd1);
  // Only now, since dx may be x.
  stream.copy(dx, d.dresidual.data, d.dresidual.span_bytes());
}

std::vector<ops::MatmulShape> Gpt2Block::matmul_shapes() const {
  std::vector<ops::MatmulShape> shapes;
  for (const std::size_t tensor :
       {kAttentionInWeight, kAttentionOutWeight, kMlpInWeight, kMlpOutWeight}) {
    const TensorSpec& weight = unit_.tensors[tensor];
    for (const ops::MatmulKind kind : {ops::MatmulKind::forward, ops::MatmulKind::backward_input,
                                       ops::MatmulKind::backward_weight}) {
      shapes.push_back({kind, weight.rows, weight.cols, limits_.rows()});
    }
  }
  return shapes;
}

double Gpt2Block::forward_flops(Batch batch) const {
  const auto rows = static_cast<double>(batch.rows());
  const auto c = static_cast<double>(config_.hidden);
  const double linear = 2 * rows * (3 + 1 + 2 * kMlpRatio) * c * c;
  // q·kᵀ and p·v; causal, so a row sees (T + 1) / 2 keys on average.
  const double attention = 2 * 2 * rows * c * (static_cast<double>(batch.tokens) + 1) / 2;
  return linear + attention;
}

}  // namespace strata::models
