#include "models/decoder_block.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/rmsnorm.h"
#include "models/carver.h"
#include "models/resident_unit.h"

namespace strata::models {

using ops::Into;
using ops::Matrix;

namespace {

// Columns [first, first + cols) of a matrix.
Matrix columns_of(const Matrix& matrix, std::int64_t first, std::int64_t cols) {
  return {static_cast<std::byte*>(matrix.data) + first * bytes_of(matrix.dtype), matrix.dtype,
          matrix.rows, cols, matrix.stride};
}

void check_batch(Batch batch, Batch limits) {
  STRATA_CHECK(batch.sequences >= 1 && batch.sequences <= limits.sequences && batch.tokens >= 1 &&
                   batch.tokens <= limits.tokens,
               "a batch of {} x {} tokens, made for {} x {}", batch.sequences, batch.tokens,
               limits.sequences, limits.tokens);
}

}  // namespace

// What forward() leaves for backward(); M = B·T rows.
struct DecoderBlock::Saved {
  NormStatistics norm1;
  Matrix normed1;      // (M, C)
  Matrix qkv;          // (M, (H + 2 Hkv)·D), as projected; rotated in place without QK-norm
  Matrix qk;           // (M, (H + Hkv)·D), as attention sees them: with QK-norm of their own
  float* q_rstd;       // (M, H), with QK-norm
  float* k_rstd;       // (M, Hkv), with QK-norm
  float* log_sum_exp;  // (B, H, T)
  Matrix attended;     // (M, H·D)
  Matrix residual;     // (M, C), the block's r
  NormStatistics norm2;
  Matrix normed2;  // (M, C)
  Matrix mlp_in;   // (M, F or 2F), before the activation
  Matrix mlp_out;  // (M, F), after it

  Saved(Carver& carver, const DecoderBlock& block, Batch batch) {
    const ModelConfig& config = block.config_;
    const Dtype dtype = block.dtype_;
    const std::int64_t m = batch.rows();
    const std::int64_t c = config.hidden;
    const bool qk_norm = config.qk_norm == QkNorm::per_head;
    norm1 = NormStatistics::take(carver, m);
    normed1 = carver.take_matrix(dtype, m, c);
    qkv = carver.take_matrix(dtype, m, block.qkv_columns());
    qk = qk_norm ? carver.take_matrix(dtype, m, block.qk_columns())
                 : columns_of(qkv, 0, block.qk_columns());
    q_rstd = qk_norm ? carver.take_f32(m * config.heads) : nullptr;
    k_rstd = qk_norm ? carver.take_f32(m * config.kv_heads) : nullptr;
    log_sum_exp = carver.take_f32(m * config.heads);
    attended = carver.take_matrix(dtype, m, config.channels());
    residual = carver.take_matrix(dtype, m, c);
    norm2 = NormStatistics::take(carver, m);
    normed2 = carver.take_matrix(dtype, m, c);
    mlp_in = carver.take_matrix(dtype, m, block.mlp_in_columns());
    mlp_out = carver.take_matrix(dtype, m, config.intermediate);
  }

  // q and k as attention sees them, and v.
  ops::Qkv attention_operands(const ModelConfig& config) const {
    return {.q = columns_of(qk, 0, config.channels()),
            .k = columns_of(qk, config.channels(), config.kv_channels()),
            .v = columns_of(qkv, qk.cols, config.kv_channels())};
  }
};

// Scratch of backward().
struct DecoderBlock::Workspace {
  Matrix dresidual;  // (M, C): the gradient along the residual stream, from dout to dx
  Matrix dbranch;    // (M, C): at the input of a branch
  Matrix dattended;  // (M, H·D), in the memory of dbranch
  Matrix dmlp;       // (M, F or 2F): of mlp_in; with SwiGLU its last F columns first of mlp_out
  Matrix dqkv;       // (M, (H + 2 Hkv)·D), in the memory of dmlp
  float* row_dots;   // (B, H, T)

  Workspace(Carver& carver, const DecoderBlock& block, Batch batch) {
    const ModelConfig& config = block.config_;
    const Dtype dtype = block.dtype_;
    const std::int64_t m = batch.rows();
    const auto shared = [&](std::int64_t a, std::int64_t b) {
      return carver.take(m * std::max(a, b) * bytes_of(dtype));
    };
    dresidual = carver.take_matrix(dtype, m, config.hidden);
    std::byte* const branch = shared(config.hidden, config.channels());
    dbranch = Matrix::dense(branch, dtype, m, config.hidden);
    dattended = Matrix::dense(branch, dtype, m, config.channels());
    std::byte* const inner = shared(block.mlp_in_columns(), block.qkv_columns());
    dmlp = Matrix::dense(inner, dtype, m, block.mlp_in_columns());
    dqkv = Matrix::dense(inner, dtype, m, block.qkv_columns());
    row_dots = carver.take_f32(m * config.heads);
  }
};

// One call of backward().
struct DecoderBlock::Backward {
  Batch batch;
  const ResidentWeights& w;
  const ResidentGradients& g;
  Into into;
  const Saved& s;
  const Workspace& d;
  Matrix input;    // x
  Matrix doutput;  // dout
};

DecoderBlock::DecoderBlock(const ModelConfig& config, Dtype dtype, Batch limits,
                           ops::RotaryTables rotary)
    : config_(config), dtype_(dtype), limits_(limits), rotary_(rotary), norm_(config) {
  BlockUnit unit = block_unit(config, 0);
  unit_ = std::move(unit.spec);
  tensors_ = unit.tensors;
  Carver saved;
  saved_bytes_ = (Saved(saved, *this, limits), saved.taken_bytes());
  Carver workspace;
  workspace_bytes_ = (Workspace(workspace, *this, limits), workspace.taken_bytes());
}

DecoderBlock::Saved DecoderBlock::saved_of(std::byte* memory, Batch batch) const {
  return lay_out<Saved>(memory, *this, batch);
}

DecoderBlock::Workspace DecoderBlock::workspace_of(std::byte* memory, Batch batch) const {
  return lay_out<Workspace>(memory, *this, batch);
}

std::int64_t DecoderBlock::mlp_in_columns() const {
  return config_.intermediate * (config_.mlp == MlpKind::swiglu ? 2 : 1);
}

ops::AttentionShape DecoderBlock::attention_shape(Batch batch) const {
  return {.batch = batch.sequences,
          .tokens = batch.tokens,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim};
}

ops::PlannedAttention DecoderBlock::planned_attention() const {
  const bool qk_norm = config_.qk_norm == QkNorm::per_head;
  return {.shape = attention_shape(limits_),
          .window = config_.window,
          .qk_stride = qk_norm ? qk_columns() : qkv_columns()};
}

ops::AttentionOptions DecoderBlock::attention_options(Batch batch) const {
  return {.window = config_.window, .document_starts = batch.document_starts};
}

// From x to what attention sees.
void DecoderBlock::forward_qkv(Stream& stream, Batch batch, const ResidentWeights& w,
                               const Saved& s, const Matrix& input) const {
  norm_.forward(stream, s.normed1, s.norm1, input, w, tensors_.norm1_weight, tensors_.norm1_bias);
  ops::linear_forward(stream, s.qkv, s.normed1, w.matrix(tensors_.qkv_weight),
                      w.vector(tensors_.qkv_bias));
  if (config_.qk_norm == QkNorm::per_head) {
    const auto epsilon = static_cast<float>(config_.norm_epsilon);
    const ops::Qkv operands = s.attention_operands(config_);
    ops::rmsnorm_forward(stream, operands.q, s.q_rstd, columns_of(s.qkv, 0, config_.channels()),
                         w.matrix(tensors_.q_norm), epsilon);
    ops::rmsnorm_forward(stream, operands.k, s.k_rstd,
                         columns_of(s.qkv, config_.channels(), config_.kv_channels()),
                         w.matrix(tensors_.k_norm), epsilon);
  }
  if (config_.rotary) ops::rotary_forward(stream, s.qk, rotary_, batch.positions);
}

// From attention's output to the MLP's last layer.
void DecoderBlock::forward_to_mlp(Stream& stream, const ResidentWeights& w, const Saved& s,
                                  const Matrix& input) const {
  ops::linear_forward(stream, s.residual, s.attended, w.matrix(tensors_.attention_out_weight),
                      w.vector(tensors_.attention_out_bias));
  ops::add(stream, s.residual, s.residual, input);
  norm_.forward(stream, s.normed2, s.norm2, s.residual, w, tensors_.norm2_weight,
                tensors_.norm2_bias);
  const Matrix weight = w.matrix(tensors_.mlp_in_weight);
  const void* const bias = w.vector(tensors_.mlp_in_bias);
  if (config_.mlp == MlpKind::swiglu) {
    const std::int64_t f = config_.intermediate;
    ops::linear_forward(stream, s.mlp_in, s.normed2, weight, bias);
    ops::swiglu_forward(stream, s.mlp_out, columns_of(s.mlp_in, 0, f), columns_of(s.mlp_in, f, f));
  } else {
    ops::linear_gelu_forward(stream, s.mlp_out, s.mlp_in, s.normed2, weight, bias);
  }
}

void DecoderBlock::forward_output(Stream& stream, const ResidentWeights& w, const Saved& s,
                                  void* out) const {
  const Matrix output = Matrix::dense(out, dtype_, s.residual.rows, config_.hidden);
  ops::linear_forward(stream, output, s.mlp_out, w.matrix(tensors_.mlp_out_weight),
                      w.vector(tensors_.mlp_out_bias));
  ops::add(stream, output, output, s.residual);
}

void DecoderBlock::recompute(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                             std::byte* saved) const {
  check_batch(batch, limits_);
  const ResidentWeights w(unit_, dtype_, weights);
  const Saved s = saved_of(saved, batch);
  const Matrix input = read_only(x, dtype_, batch.rows(), config_.hidden);
  forward_qkv(stream, batch, w, s, input);
  ops::attention_forward(stream, attention_shape(batch), attention_options(batch), s.attended,
                         s.log_sum_exp, s.attention_operands(config_));
  forward_to_mlp(stream, w, s, input);
}

void DecoderBlock::forward(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                           std::byte* saved, void* out) const {
  recompute(stream, batch, weights, x, saved);
  forward_output(stream, {unit_, dtype_, weights}, saved_of(saved, batch), out);
}

void DecoderBlock::decode(Stream& stream, Batch batch, std::int64_t past, const ops::KvCache& cache,
                          const std::byte* weights, const void* x, std::byte* scratch,
                          void* out) const {
  check_batch(batch, limits_);
  const ResidentWeights w(unit_, dtype_, weights);
  const Saved s = saved_of(scratch, batch);
  const Matrix input = read_only(x, dtype_, batch.rows(), config_.hidden);
  forward_qkv(stream, batch, w, s, input);
  ops::attention_with_cache(stream, attention_shape(batch), attention_options(batch), s.attended,
                            s.attention_operands(config_), cache, past);
  forward_to_mlp(stream, w, s, input);
  forward_output(stream, w, s, out);
}

// Adds the MLP's part to dresidual, which begins as dout.
void DecoderBlock::backward_mlp(Stream& stream, const Backward& call) const {
  const auto& [batch, w, g, into, s, d, input, doutput] = call;
  const Matrix mlp_out_weight = w.matrix(tensors_.mlp_out_weight);
  ops::linear_backward_weight(stream, g.matrix(tensors_.mlp_out_weight),
                              g.vector(tensors_.mlp_out_bias), doutput, s.mlp_out, into);
  if (config_.mlp == MlpKind::swiglu) {
    const std::int64_t f = config_.intermediate;
    const Matrix dmlp_out = columns_of(d.dmlp, f, f);
    ops::linear_backward_input(stream, dmlp_out, doutput, mlp_out_weight, Into::overwrite);
    ops::swiglu_backward(stream, columns_of(d.dmlp, 0, f), dmlp_out, dmlp_out,
                         columns_of(s.mlp_in, 0, f), columns_of(s.mlp_in, f, f));
  } else {
    ops::linear_gelu_backward_input(stream, d.dmlp, doutput, mlp_out_weight, s.mlp_in);
  }
  ops::linear_backward_weight(stream, g.matrix(tensors_.mlp_in_weight),
                              g.vector(tensors_.mlp_in_bias), d.dmlp, s.normed2, into);
  ops::linear_backward_input(stream, d.dbranch, d.dmlp, w.matrix(tensors_.mlp_in_weight),
                             Into::overwrite);
  norm_.backward(stream, d.dresidual, Into::add, g, into, d.dbranch, s.residual, w,
                 tensors_.norm2_weight, tensors_.norm2_bias, s.norm2);
}

// Adds attention's part to dresidual.
void DecoderBlock::backward_attention(Stream& stream, const Backward& call) const {
  const auto& [batch, w, g, into, s, d, input, doutput] = call;
  ops::linear_backward_weight(stream, g.matrix(tensors_.attention_out_weight),
                              g.vector(tensors_.attention_out_bias), d.dresidual, s.attended, into);
  ops::linear_backward_input(stream, d.dattended, d.dresidual,
                             w.matrix(tensors_.attention_out_weight), Into::overwrite);
  const ops::AttentionShape shape = attention_shape(batch);
  const ops::Qkv gradients = ops::unpack(shape, d.dqkv);
  ops::attention_backward(stream, shape, attention_options(batch), gradients, d.row_dots,
                          d.dattended, s.attention_operands(config_), s.attended, s.log_sum_exp);
  if (config_.rotary) {
    ops::rotary_backward(stream, columns_of(d.dqkv, 0, qk_columns()), rotary_, batch.positions);
  }
  if (config_.qk_norm == QkNorm::per_head) {
    const ops::Qkv projected = ops::unpack(shape, s.qkv);
    ops::rmsnorm_backward(stream, gradients.q, Into::overwrite, g.matrix(tensors_.q_norm), into,
                          gradients.q, projected.q, w.matrix(tensors_.q_norm), s.q_rstd);
    ops::rmsnorm_backward(stream, gradients.k, Into::overwrite, g.matrix(tensors_.k_norm), into,
                          gradients.k, projected.k, w.matrix(tensors_.k_norm), s.k_rstd);
  }
  ops::linear_backward_weight(stream, g.matrix(tensors_.qkv_weight), g.vector(tensors_.qkv_bias),
                              d.dqkv, s.normed1, into);
  ops::linear_backward_input(stream, d.dbranch, d.dqkv, w.matrix(tensors_.qkv_weight),
                             Into::overwrite);
  norm_.backward(stream, d.dresidual, Into::add, g, into, d.dbranch, input, w,
                 tensors_.norm1_weight, tensors_.norm1_bias, s.norm1);
}

void DecoderBlock::backward(Stream& stream, Batch batch, const std::byte* weights, float* gradients,
                            Into into, const void* x, const std::byte* saved, const void* dout,
                            void* dx, std::byte* workspace) const {
  check_batch(batch, limits_);
  const ResidentWeights w(unit_, dtype_, weights);
  const ResidentGradients g(unit_, gradients);
  const Saved s = saved_of(const_cast<std::byte*>(saved), batch);
  const Workspace d = workspace_of(workspace, batch);
  const std::int64_t m = batch.rows();
  if (into == Into::overwrite) g.zero_gaps(stream);
  stream.copy(d.dresidual.data, dout, d.dresidual.span_bytes());
  const Backward call{batch,
                      w,
                      g,
                      into,
                      s,
                      d,
                      read_only(x, dtype_, m, config_.hidden),
                      read_only(dout, dtype_, m, config_.hidden)};
  backward_mlp(stream, call);
  backward_attention(stream, call);
  // Only now, since dx may be x.
  stream.copy(dx, d.dresidual.data, d.dresidual.span_bytes());
}

std::vector<ops::MatmulShape> DecoderBlock::matmul_shapes() const {
  std::vector<ops::MatmulShape> shapes;
  for (const TensorRun run : {tensors_.qkv_weight, tensors_.attention_out_weight,
                              tensors_.mlp_in_weight, tensors_.mlp_out_weight}) {
    for (const ops::MatmulKind kind : {ops::MatmulKind::forward, ops::MatmulKind::backward_input,
                                       ops::MatmulKind::backward_weight}) {
      shapes.push_back({kind, rows_of(unit_, run), unit_.tensors[run.first].cols, limits_.rows()});
    }
  }
  return shapes;
}

double DecoderBlock::forward_flops(Batch batch) const {
  const auto rows = static_cast<double>(batch.rows());
  double linear = 0;
  for (const TensorRun run : {tensors_.qkv_weight, tensors_.attention_out_weight,
                              tensors_.mlp_in_weight, tensors_.mlp_out_weight}) {
    linear += 2 * rows * static_cast<double>(rows_of(unit_, run) * unit_.tensors[run.first].cols);
  }
  // Keys that a row sees: on average (T + 1) / 2, with a window at most its length.
  const auto tokens = static_cast<double>(batch.tokens);
  const double window = config_.window > 0 && config_.window < batch.tokens
                            ? static_cast<double>(config_.window)
                            : tokens;
  const double keys = (window * (window + 1) / 2 + (tokens - window) * window) / tokens;
  // q·kᵀ and p·v.
  return linear + 2 * 2 * rows * static_cast<double>(config_.channels()) * keys;
}

}  // namespace strata::models
