// Final norm and output head, tied to the token table or with its own, one chunk of the vocabulary
// at a time.
//
// The order of a pass: final_norm_forward per micro-batch; then for each chunk, for each
// micro-batch, chunk_forward; then finish_loss per micro-batch. For training once more over the
// chunks with chunk_backward, then final_norm_backward. Logits exist for one chunk and one
// micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/view.h"
#include "models/decoder_block.h"
#include "models/model_config.h"
#include "models/norm.h"

namespace strata::models {

// What the head keeps of a micro-batch from the final norm to its backward, in three pieces because
// they are used differently: the walks over the chunks only read `normed`, and `dnormed` exists
// only in backward. (M = B·T of the largest batch.)
struct HeadMemory {
  std::byte* normed = nullptr;   // (M, C) dtype
  std::byte* dnormed = nullptr;  // (M, C) f32; null where there is no backward
  std::byte* rows = nullptr;     // mean, rstd, statistics: 5 × (M) f32
};

class OutputHead {
 public:
  OutputHead(const ModelConfig& config, Dtype dtype, Batch limits);

  // Bytes of each piece of a HeadMemory.
  std::int64_t normed_bytes() const { return normed_bytes_; }
  std::int64_t dnormed_bytes() const { return dnormed_bytes_; }
  std::int64_t rows_bytes() const { return rows_bytes_; }
  // Logits of one chunk for one micro-batch, and their gradients.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // weights: the final norm's unit. Writes normed, mean, rstd; resets the statistics.
  void final_norm_forward(Stream& stream, Batch batch, const std::byte* weights, const void* x,
                          const HeadMemory& memory) const;
  // table: rows [first_id, first_id + rows) of the token or head table, (rows, C); at most
  // table_chunk_rows().
  void chunk_forward(Stream& stream, Batch batch, const std::byte* table, std::int64_t first_id,
                     std::int64_t rows, const HeadMemory& memory, const std::int32_t* targets,
                     std::byte* workspace) const;
  // As ops::cross_entropy_loss.
  void finish_loss(Stream& stream, Batch batch, const HeadMemory& memory,
                   const std::int32_t* targets, double* loss_sum,
                   ops::TargetCounts* counts = nullptr) const;
  // dtable (rows, C) f32 = or += ; dnormed is overwritten at the first chunk (first_id == 0).
  // `scale`: 1 / (target tokens of the whole step).
  void chunk_backward(Stream& stream, Batch batch, const std::byte* table, float* dtable,
                      ops::Into into, std::int64_t first_id, std::int64_t rows,
                      const HeadMemory& memory, const std::int32_t* targets, float scale,
                      std::byte* workspace) const;
  // gradients: the final norm's unit, f32; Into::overwrite also zeroes the gap between its tensors.
  // dx (B·T, C) may be x itself.
  void final_norm_backward(Stream& stream, Batch batch, const std::byte* weights, float* gradients,
                           ops::Into into, const void* x, const HeadMemory& memory, void* dx) const;

  // For sampling: logits (rows) f32 of one chunk for row `row` of the memory's normed.
  void logits_of_row(Stream& stream, const std::byte* table, std::int64_t rows,
                     const HeadMemory& memory, std::int64_t row, float* logits) const;

  std::vector<ops::MatmulShape> matmul_shapes() const;
  // Multiply-adds × 2 of one forward over all chunks.
  double forward_flops(Batch batch) const;

 private:
  struct Views;
  Views views_of(const HeadMemory& memory, std::int64_t rows) const;

  ModelConfig config_;
  Dtype dtype_;
  Batch limits_;
  Norm norm_;
  UnitSpec unit_;  // of the final norm
  std::int64_t chunk_rows_max_ = 0;
  std::int64_t normed_bytes_ = 0;
  std::int64_t dnormed_bytes_ = 0;
  std::int64_t rows_bytes_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace strata::models
