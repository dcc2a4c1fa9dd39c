// attention.h on a cuda device by cuDNN's kernels where they can, else by ours. Which of them is a
// matter of shapes, strides, alignments and the workspace that was attached (which follows from
// shapes), and of whether the machine has cuDNN, which attention_library() tells and a run records:
// neither budgets nor timing change bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cuda/cudnn_attention.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {

// Why cuDNN cannot compute this; null where it can, in bf16 and its own order of sums.
const char* own_attention_because(const AttentionShape& shape, const AttentionOptions& options,
                                  std::span<const Matrix> operands);

// What cuDNN's backward takes of device memory to give the same bits each time: a number for each
// pair of tokens of each head, so that it is run on slices.
std::int64_t backward_workspace_bytes(const AttentionShape& shape);
inline constexpr std::int64_t kBackwardWorkspaceMax = std::int64_t{256} << 20;
// The largest slice that `bytes` allow, by which the shape is divided without rest: some sequences,
// or some KV heads of one, with their query heads. Of batch 0 where none is small enough.
AttentionShape backward_slice(const AttentionShape& shape, std::int64_t bytes);

std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits);

// Whose kernels, with the version.
std::string attention_library();

class Attention {
 public:
  explicit Attention(const Scratch& scratch) : cudnn_(load_cudnn_attention(scratch)) {}

  void forward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
               const Matrix& out, float* log_sum_exp, const Qkv& qkv);
  void backward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
                const Qkv& gradients, float* row_dots, const Matrix& dout, const Qkv& qkv,
                const Matrix& out, const float* log_sum_exp);

 private:
  std::unique_ptr<CudnnAttention> cudnn_;  // null: there is none
};

}  // namespace strata::ops::cuda
