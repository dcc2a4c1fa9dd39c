// attention.h on a cuda device: the planned calls by cuDNN's kernels where it has a plan, all
// others by ours. Plans are made when ops are attached, for a full micro-batch and for one
// sequence, of which smaller ones are made up; a sequence that is shorter (of padded documents,
// say) is ours.
//
// So which kernels compute a call follows from the run's options, from the GPU, and from whether
// the machine has which cuDNN, which attention_library() tells and a run records: neither budgets,
// timing, ranks nor the step that a run goes on from change bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/ops/attention.h"
#include "kernels/ops/cuda/cudnn_attention.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {

// Why cuDNN makes no plans for these; null where it may.
const char* own_attention_because(const PlannedAttention& planned);

// Whether it is one of the planned calls, with rows where cuDNN can read them.
bool is_planned(const PlannedAttention& planned, const AttentionShape& shape,
                const AttentionOptions& options, const Matrix& out, const Qkv& qkv);
bool is_planned(const PlannedAttention& planned, const Matrix& dout, const Qkv& gradients);

// What cuDNN's backward takes of device memory to give the same bits each time: a number for each
// pair of tokens of each head, so that it is run on slices.
std::int64_t backward_workspace_bytes(const AttentionShape& shape);
// The largest slice within workspace_bytes_max: some sequences, or an equal part of one's KV heads,
// with their query heads. Of batch 0 where none is small enough.
AttentionShape backward_slice(const PlannedAttention& planned);

std::int64_t attention_scratch_bytes(const PlannedAttention& planned);

// Whose kernels, with the version.
std::string attention_library();

class Attention {
 public:
  Attention(const Scratch& scratch, const PlannedAttention& planned);

  void forward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
               const Matrix& out, float* log_sum_exp, const Qkv& qkv);
  void backward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
                const Qkv& gradients, float* row_dots, const Matrix& dout, const Qkv& qkv,
                const Matrix& out, const float* log_sum_exp);

 private:
  PlannedAttention planned_;
  std::unique_ptr<CudnnAttention> cudnn_;  // null: there is none, or nothing for it
};

}  // namespace strata::ops::cuda
