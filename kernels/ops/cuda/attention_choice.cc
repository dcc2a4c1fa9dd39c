#include "kernels/ops/cuda/attention_choice.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/base/bytes.h"
#include "kernels/ops/cuda/attention.h"

namespace strata::ops::cuda {
namespace {

constexpr std::int64_t kVectorElements = 16 / bytes_of(Dtype::bf16);  // that cuDNN reads rows in
// A slice's statistics begin where those of a head or sequence end, and cuDNN takes them to begin
// at 16 bytes.
constexpr std::int64_t kVectorRows = 16 / bytes_of(Dtype::f32);

bool is_read_in_vectors(const Matrix& matrix, std::int64_t stride) {
  return matrix.dtype == Dtype::bf16 && matrix.stride == stride &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0;
}

}  // namespace

#ifndef STRATA_HAVE_CUDNN
std::string cudnn_version() { return ""; }
std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& /*workspace*/,
                                                     const PlannedAttention& /*planned*/) {
  return nullptr;
}
#endif

const char* own_attention_because(const PlannedAttention& planned) {
  const AttentionShape& shape = planned.shape;
  if (shape.heads == 0) return "nothing is planned";
  if (shape.head_dim % kVectorElements != 0 || planned.qk_stride % kVectorElements != 0) {
    return "cuDNN reads rows in vectors of 8 elements";
  }
  if (shape.head_dim > 128) return "above 128 channels cuDNN has no backward on most GPUs";
  if (shape.tokens == 1) return "one token attends to itself";
  if (shape.tokens % kVectorRows != 0) return "cuDNN's statistics are aligned to 4 rows";
  return nullptr;
}

bool is_planned(const PlannedAttention& planned, const AttentionShape& shape,
                const AttentionOptions& options, const Matrix& out, const Qkv& qkv) {
  AttentionShape full = planned.shape;
  full.batch = shape.batch;
  return shape == full && options.window == planned.window && !options.scale &&
         options.document_starts == nullptr && is_read_in_vectors(out, shape.channels()) &&
         is_read_in_vectors(qkv.q, planned.qk_stride) &&
         is_read_in_vectors(qkv.k, planned.qk_stride) &&
         is_read_in_vectors(qkv.v, shape.packed_channels());
}

bool is_planned(const PlannedAttention& planned, const Matrix& dout, const Qkv& gradients) {
  const std::int64_t packed = planned.shape.packed_channels();
  return is_read_in_vectors(dout, planned.shape.channels()) &&
         is_read_in_vectors(gradients.q, packed) && is_read_in_vectors(gradients.k, packed) &&
         is_read_in_vectors(gradients.v, packed);
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

AttentionShape backward_slice(const PlannedAttention& planned) {
  AttentionShape slice = planned.shape;
  slice.batch = 1;
  const std::int64_t sequences = planned.workspace_bytes_max / backward_workspace_bytes(slice);
  if (sequences > 0) {
    slice.batch = std::min(planned.shape.batch, sequences);
    return slice;
  }
  for (std::int64_t parts = 2; parts <= planned.shape.kv_heads; ++parts) {
    if (planned.shape.kv_heads % parts != 0) continue;
    slice.heads = planned.shape.heads / parts;
    slice.kv_heads = planned.shape.kv_heads / parts;
    if (backward_workspace_bytes(slice) <= planned.workspace_bytes_max) return slice;
  }
  slice.batch = 0;
  return slice;
}

std::int64_t attention_scratch_bytes(const PlannedAttention& planned) {
  if (own_attention_because(planned) != nullptr || !planned.has_backward) return 0;
  if (cudnn_version().empty()) return 0;
  const AttentionShape slice = backward_slice(planned);
  return slice.batch == 0 ? 0 : backward_workspace_bytes(slice);
}

std::string attention_library() {
  const std::string cudnn = cudnn_version();
  return cudnn.empty() ? "own attention" : cudnn;
}

Attention::Attention(const Scratch& scratch, const PlannedAttention& planned)
    : planned_(planned),
      cudnn_(own_attention_because(planned) == nullptr ? load_cudnn_attention(scratch, planned)
                                                       : nullptr) {}

void Attention::forward(cudaStream_t stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                        const Qkv& qkv) {
  if (cudnn_ != nullptr && is_planned(planned_, shape, options, out, qkv) &&
      cudnn_->forward(stream, shape.batch, out, log_sum_exp, qkv)) {
    return;
  }
  attention_forward(stream, shape, options, out, log_sum_exp, qkv);
}

void Attention::backward(cudaStream_t stream, const AttentionShape& shape,
                         const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                         const Matrix& dout, const Qkv& qkv, const Matrix& out,
                         const float* log_sum_exp) {
  if (cudnn_ != nullptr && is_planned(planned_, shape, options, out, qkv) &&
      is_planned(planned_, dout, gradients) &&
      cudnn_->backward(stream, shape.batch, gradients, dout, qkv, out, log_sum_exp)) {
    return;
  }
  attention_backward(stream, shape, options, gradients, row_dots, dout, qkv, out, log_sum_exp);
}

}  // namespace strata::ops::cuda
