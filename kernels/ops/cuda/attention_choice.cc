#include "kernels/ops/cuda/attention_choice.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/ops/cuda/attention.h"

namespace strata::ops::cuda {
namespace {

constexpr std::int64_t kVectorBytes = 16;

bool begins_rows_at_vectors(const Matrix& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % kVectorBytes == 0 &&
         matrix.stride * bytes_of(matrix.dtype) % kVectorBytes == 0;
}

// The largest divisor of `count` with fits(divisor), or 0.
template <typename Fits>
std::int64_t largest_divisor(std::int64_t count, const Fits& fits) {
  for (std::int64_t parts = 1; parts <= count; ++parts) {
    if (count % parts == 0 && fits(count / parts)) return count / parts;
  }
  return 0;
}

}  // namespace

#ifndef STRATA_HAVE_CUDNN
std::string cudnn_version() { return ""; }
std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& /*workspace*/) {
  return nullptr;
}
#endif

const char* own_attention_because(const AttentionShape& shape, const AttentionOptions& options,
                                  std::span<const Matrix> operands) {
  for (const Matrix& operand : operands) {
    if (operand.dtype != Dtype::bf16) return "cuDNN's kernels are of bf16";
    if (!begins_rows_at_vectors(operand)) return "cuDNN reads rows in vectors of 16 bytes";
  }
  if (options.document_starts != nullptr) {
    return "cuDNN takes documents as lengths that the host knows";
  }
  if (shape.head_dim % 8 != 0) return "cuDNN wants heads of a multiple of 8 channels";
  if (shape.head_dim > 128) return "above 128 channels cuDNN has no backward on most GPUs";
  if (shape.tokens == 1) return "one token attends to itself";
  return nullptr;
}

std::int64_t backward_workspace_bytes(const AttentionShape& shape) {
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t pairs = round_up(shape.tokens, 64) * round_up(shape.tokens, 128);
  const std::int64_t row_dots = heads * shape.tokens * bytes_of(Dtype::f32);
  // dk and dv of each query head, before they are summed.
  const std::int64_t unsummed =
      shape.heads == shape.kv_heads ? 0 : 2 * heads * shape.tokens * shape.head_dim;
  return row_dots + (heads * pairs + unsummed) * bytes_of(Dtype::bf16);
}

AttentionShape backward_slice(const AttentionShape& shape, std::int64_t bytes) {
  AttentionShape slice = shape;
  slice.batch = largest_divisor(shape.batch, [&](std::int64_t sequences) {
    slice.batch = sequences;
    return backward_workspace_bytes(slice) <= bytes;
  });
  if (slice.batch > 0) return slice;
  slice.kv_heads = largest_divisor(shape.kv_heads, [&](std::int64_t kv_heads) {
    slice.batch = 1;
    slice.kv_heads = kv_heads;
    slice.heads = kv_heads * shape.heads_per_kv_head();
    return backward_workspace_bytes(slice) <= bytes;
  });
  if (slice.kv_heads == 0) slice.batch = 0;
  return slice;
}

std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits) {
  if (limits.trained_heads == 0 || cudnn_version().empty()) return 0;
  const AttentionShape slice =
      backward_slice({.batch = std::max<std::int64_t>(1, limits.rows_max / limits.tokens_max),
                      .tokens = limits.tokens_max,
                      .heads = limits.trained_heads,
                      .kv_heads = limits.trained_heads / limits.heads_per_kv_head,
                      .head_dim = limits.head_dim},
                     kBackwardWorkspaceMax);
  return slice.batch == 0 ? 0 : backward_workspace_bytes(slice);
}

std::string attention_library() {
  const std::string cudnn = cudnn_version();
  return cudnn.empty() ? "own attention" : cudnn;
}

void Attention::forward(cudaStream_t stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                        const Qkv& qkv) {
  const Matrix operands[] = {out, qkv.q, qkv.k, qkv.v};
  if (cudnn_ != nullptr && own_attention_because(shape, options, operands) == nullptr &&
      cudnn_->forward(stream, shape, options, out, log_sum_exp, qkv)) {
    return;
  }
  attention_forward(stream, shape, options, out, log_sum_exp, qkv);
}

void Attention::backward(cudaStream_t stream, const AttentionShape& shape,
                         const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                         const Matrix& dout, const Qkv& qkv, const Matrix& out,
                         const float* log_sum_exp) {
  const Matrix operands[] = {gradients.q, gradients.k, gradients.v, dout, qkv.q, qkv.k, qkv.v, out};
  if (cudnn_ != nullptr && own_attention_because(shape, options, operands) == nullptr &&
      cudnn_->backward(stream, shape, options, gradients, dout, qkv, out, log_sum_exp)) {
    return;
  }
  attention_backward(stream, shape, options, gradients, row_dots, dout, qkv, out, log_sum_exp);
}

}  // namespace strata::ops::cuda
