#include "models/output_head.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/ops/linear.h"
#include "models/carver.h"
#include "models/model_units.h"
#include "models/resident_unit.h"

namespace strata::models {

using ops::Into;
using ops::Matrix;

// Laid out for the largest batch; a smaller one uses the first rows of each part.
struct OutputHead::Views {
  Matrix normed;   // (M, C)
  Matrix dnormed;  // (M, C) f32
  NormStatistics norm;
  ops::SoftmaxStats statistics;
};

namespace {

constexpr TensorRun kNormWeight{0, 1};
TensorRun norm_bias(const UnitSpec& unit) { return {1, unit.tensors.size() - 1}; }

// One chunk and one micro-batch. A vocabulary's last chunk may have any number of columns; each row
// begins at 16 bytes, or a GPU's products would be those for operands that are aligned to nothing.
struct Workspace {
  static constexpr std::int64_t kRowElements = 8;
  Matrix logits;   // (M, rows) f32
  Matrix dlogits;  // (M, rows); the logits' memory when activations are f32

  Workspace(Carver& carver, Dtype dtype, std::int64_t m, std::int64_t rows) {
    const auto take = [&](Dtype of) {
      Matrix matrix = carver.take_matrix(of, m, round_up(rows, kRowElements));
      matrix.cols = rows;
      return matrix;
    };
    logits = take(Dtype::f32);
    dlogits = dtype == Dtype::f32 ? logits : take(dtype);
  }
};

}  // namespace

OutputHead::OutputHead(const ModelConfig& config, Dtype dtype, Batch limits)
    : config_(config),
      dtype_(dtype),
      limits_(limits),
      norm_(config),
      unit_(final_norm_unit(config)),
      chunk_rows_max_(std::min(table_chunk_rows(config), config.vocabulary)) {
  const std::int64_t m = limits.rows();
  normed_bytes_ = m * config.hidden * bytes_of(dtype);
  dnormed_bytes_ = m * config.hidden * bytes_of(Dtype::f32);
  rows_bytes_ = 5 * m * bytes_of(Dtype::f32);
  workspace_bytes_ = layout_bytes<Workspace>(dtype_, limits_.rows(), chunk_rows_max_);
}

OutputHead::Views OutputHead::views_of(const HeadMemory& memory, std::int64_t rows) const {
  const std::int64_t m = limits_.rows();
  STRATA_CHECK(rows >= 1 && rows <= m, "{} rows, made for {}", rows, m);
  auto* const row_values = reinterpret_cast<float*>(memory.rows);
  return {Matrix::dense(memory.normed, dtype_, rows, config_.hidden),
          Matrix::dense(memory.dnormed, Dtype::f32, rows, config_.hidden),
          {row_values, row_values + m},
          {row_values + 2 * m, row_values + 3 * m, row_values + 4 * m}};
}

void OutputHead::final_norm_forward(Stream& stream, Batch batch, const std::byte* weights,
                                    const void* x, const HeadMemory& memory) const {
  const std::int64_t m = batch.rows();
  const ResidentWeights w(unit_, dtype_, weights);
  const Views r = views_of(memory, m);
  norm_.forward(stream, r.normed, r.norm, read_only(x, dtype_, m, config_.hidden), w, kNormWeight,
                norm_bias(unit_));
  ops::softmax_stats_init(stream, r.statistics, m);
}

void OutputHead::chunk_forward(Stream& stream, Batch batch, const std::byte* table,
                               std::int64_t first_id, std::int64_t rows, const HeadMemory& memory,
                               const std::int32_t* targets, std::byte* workspace) const {
  STRATA_CHECK(rows <= chunk_rows_max_, "a chunk of {} rows, made for {}", rows, chunk_rows_max_);
  const Views r = views_of(memory, batch.rows());
  const auto chunk = lay_out<Workspace>(workspace, dtype_, batch.rows(), rows);
  ops::linear_forward(stream, chunk.logits, r.normed,
                      read_only(table, dtype_, rows, config_.hidden), nullptr);
  ops::softmax_stats_update(stream, r.statistics, chunk.logits, targets, first_id);
}

void OutputHead::finish_loss(Stream& stream, Batch batch, const HeadMemory& memory,
                             const std::int32_t* targets, double* loss_sum,
                             ops::TargetCounts* counts) const {
  const std::int64_t m = batch.rows();
  ops::cross_entropy_loss(stream, loss_sum, views_of(memory, m).statistics, targets, m, counts);
}

void OutputHead::chunk_backward(Stream& stream, Batch batch, const std::byte* table, float* dtable,
                                Into into, std::int64_t first_id, std::int64_t rows,
                                const HeadMemory& memory, const std::int32_t* targets, float scale,
                                std::byte* workspace) const {
  STRATA_CHECK(rows <= chunk_rows_max_, "a chunk of {} rows, made for {}", rows, chunk_rows_max_);
  const Views r = views_of(memory, batch.rows());
  const Matrix w = read_only(table, dtype_, rows, config_.hidden);
  const Matrix dw = Matrix::dense(dtable, Dtype::f32, rows, config_.hidden);
  const auto chunk = lay_out<Workspace>(workspace, dtype_, batch.rows(), rows);
  ops::linear_forward(stream, chunk.logits, r.normed, w, nullptr);
  ops::cross_entropy_backward(stream, chunk.dlogits, chunk.logits, r.statistics, targets, first_id,
                              scale);
  ops::linear_backward_input(stream, r.dnormed, chunk.dlogits, w,
                             first_id == 0 ? Into::overwrite : Into::add);
  ops::linear_backward_weight(stream, dw, nullptr, chunk.dlogits, r.normed, into);
}

void OutputHead::final_norm_backward(Stream& stream, Batch batch, const std::byte* weights,
                                     float* gradients, Into into, const void* x,
                                     const HeadMemory& memory, void* dx) const {
  const std::int64_t m = batch.rows();
  const ResidentWeights w(unit_, dtype_, weights);
  const ResidentGradients g(unit_, gradients);
  const Views r = views_of(memory, m);
  if (into == Into::overwrite) g.zero_gaps(stream);
  norm_.backward(stream, Matrix::dense(dx, dtype_, m, config_.hidden), Into::overwrite, g, into,
                 r.dnormed, read_only(x, dtype_, m, config_.hidden), w, kNormWeight,
                 norm_bias(unit_), r.norm);
}

void OutputHead::logits_of_row(Stream& stream, const std::byte* table, std::int64_t rows,
                               const HeadMemory& memory, std::int64_t row, float* logits) const {
  const Matrix normed = views_of(memory, row + 1).normed;
  std::byte* const normed_row =
      static_cast<std::byte*>(normed.data) + row * config_.hidden * bytes_of(dtype_);
  ops::linear_forward(stream, Matrix::dense(logits, Dtype::f32, 1, rows),
                      Matrix::dense(normed_row, dtype_, 1, config_.hidden),
                      read_only(table, dtype_, rows, config_.hidden), nullptr);
}

std::vector<ops::MatmulShape> OutputHead::matmul_shapes() const {
  std::vector<std::int64_t> chunks{chunk_rows_max_};
  const std::int64_t last = config_.vocabulary % chunk_rows_max_;
  if (last != 0) chunks.push_back(last);
  std::vector<ops::MatmulShape> shapes;
  for (const std::int64_t rows : chunks) {
    for (const ops::MatmulKind kind : {ops::MatmulKind::forward, ops::MatmulKind::backward_input,
                                       ops::MatmulKind::backward_weight}) {
      shapes.push_back({kind, rows, config_.hidden, limits_.rows()});
    }
  }
  return shapes;
}

double OutputHead::forward_flops(Batch batch) const {
  return 2.0 * static_cast<double>(batch.rows()) * static_cast<double>(config_.vocabulary) *
         static_cast<double>(config_.hidden);
}

}  // namespace strata::models
