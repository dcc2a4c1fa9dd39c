#include "kernels/ops/cuda_ops.h"

#include <algorithm>
#include <memory>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/cuda_stream.h"
#include "kernels/device/cuda/gpu.h"
#include "kernels/device/cuda_backend.h"
#include "kernels/ops/cuda/attention.h"
#include "kernels/ops/cuda/attention_choice.h"
#include "kernels/ops/cuda/bias.h"
#include "kernels/ops/cuda/cross_entropy.h"
#include "kernels/ops/cuda/elementwise.h"
#include "kernels/ops/cuda/embedding.h"
#include "kernels/ops/cuda/linear.h"
#include "kernels/ops/cuda/norm.h"
#include "kernels/ops/cuda/rotary.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {
namespace {

// For what plans of any size load.
constexpr PlannedAttention kSmallAttention = {
    .shape = {.batch = 1, .tokens = 128, .heads = 1, .kv_heads = 1, .head_dim = 64},
    .qk_stride = 3 * 64,
    .has_backward = true};

template <typename... Parameters, typename... Arguments>
void launch(const char* name, Stream& stream, void (*op)(cudaStream_t, Parameters...),
            const Arguments&... arguments) {
  as_cuda(stream).launch(name, [&](cudaStream_t handle) { op(handle, arguments...); });
}

std::int64_t scratch_bytes(const CpuOpsLimits& limits) {
  return std::max({norm_scratch_bytes(limits.weight_cols_max),
                   embedding_scratch_bytes(limits.rows_max), Linear::kScratchBytes,
                   attention_scratch_bytes(limits.attention),
                   std::max(kBiasSums, limits.weight_rows_max) * bytes_of(Dtype::f32)});
}

class AttachedOps final : public CudaOps {
 public:
  AttachedOps(Device& device, const CpuOpsLimits& limits)
      : memory_(device.allocate("scratch memory of ops", scratch_bytes(limits))),
        scratch_{memory_.data(), memory_.bytes()},
        linear_(scratch_),
        attention_(scratch_, limits.attention) {}

  void linear_forward(Stream& stream, Matrix y, Matrix x, Matrix w, const void* bias) override {
    as_cuda(stream).launch(__func__,
                           [&](cudaStream_t handle) { linear_.forward(handle, y, x, w, bias); });
  }
  void linear_backward_input(Stream& stream, Matrix dx, Matrix dy, Matrix w, Into into) override {
    as_cuda(stream).launch(
        __func__, [&](cudaStream_t handle) { linear_.backward_input(handle, dx, dy, w, into); });
  }
  void linear_backward_weight(Stream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                              Into into) override {
    as_cuda(stream).launch(__func__, [&](cudaStream_t handle) {
      linear_.backward_weight(handle, dw, dbias, dy, x, into);
    });
  }
  void linear_gelu_forward(Stream& stream, Matrix y, Matrix h, Matrix x, Matrix w,
                           const void* bias) override {
    as_cuda(stream).launch(
        __func__, [&](cudaStream_t handle) { linear_.gelu_forward(handle, y, h, x, w, bias); });
  }
  void linear_gelu_backward_input(Stream& stream, Matrix dh, Matrix dy, Matrix w,
                                  Matrix h) override {
    as_cuda(stream).launch(
        __func__, [&](cudaStream_t handle) { linear_.gelu_backward_input(handle, dh, dy, w, h); });
  }
  void attention_forward(Stream& stream, const AttentionShape& shape,
                         const AttentionOptions& options, Matrix out, float* log_sum_exp,
                         const Qkv& qkv) override {
    as_cuda(stream).launch(__func__, [&](cudaStream_t handle) {
      attention_.forward(handle, shape, options, out, log_sum_exp, qkv);
    });
  }
  void attention_backward(Stream& stream, const AttentionShape& shape,
                          const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                          Matrix dout, const Qkv& qkv, Matrix out,
                          const float* log_sum_exp) override {
    as_cuda(stream).launch(__func__, [&](cudaStream_t handle) {
      attention_.backward(handle, shape, options, gradients, row_dots, dout, qkv, out, log_sum_exp);
    });
  }
  void attention_with_cache(Stream& stream, const AttentionShape& shape,
                            const AttentionOptions& options, Matrix out, const Qkv& qkv,
                            const KvCache& cache, std::int64_t past) override {
    launch(__func__, stream, cuda::attention_with_cache, scratch_, shape, options, out, qkv, cache,
           past);
  }
  void gelu_forward(Stream& stream, Matrix y, Matrix x) override {
    launch(__func__, stream, cuda::gelu_forward, y, x);
  }
  void gelu_backward(Stream& stream, Matrix dx, Matrix dy, Matrix x) override {
    launch(__func__, stream, cuda::gelu_backward, dx, dy, x);
  }
  void swiglu_forward(Stream& stream, Matrix y, Matrix gate, Matrix up) override {
    launch(__func__, stream, cuda::swiglu_forward, y, gate, up);
  }
  void swiglu_backward(Stream& stream, Matrix dgate, Matrix dup, Matrix dy, Matrix gate,
                       Matrix up) override {
    launch(__func__, stream, cuda::swiglu_backward, dgate, dup, dy, gate, up);
  }
  void add(Stream& stream, Matrix y, Matrix a, Matrix b) override {
    launch(__func__, stream, cuda::add, y, a, b);
  }
  void layernorm_forward(Stream& stream, Matrix y, float* mean, float* rstd, Matrix x,
                         const void* weight, const void* bias) override {
    launch(__func__, stream, cuda::layernorm_forward, y, mean, rstd, x, weight, bias);
  }
  void layernorm_backward(Stream& stream, Matrix dx, Into dx_into, float* dweight, float* dbias,
                          Into parameters, Matrix dy, Matrix x, const void* weight,
                          const float* mean, const float* rstd) override {
    launch(__func__, stream, cuda::layernorm_backward, scratch_, dx, dx_into, dweight, dbias,
           parameters, dy, x, weight, mean, rstd);
  }
  void rmsnorm_forward(Stream& stream, Matrix y, float* rstd, Matrix x, Matrix weight,
                       float epsilon) override {
    launch(__func__, stream, cuda::rmsnorm_forward, y, rstd, x, weight, epsilon);
  }
  void rmsnorm_backward(Stream& stream, Matrix dx, Into dx_into, Matrix dweight, Into dweight_into,
                        Matrix dy, Matrix x, Matrix weight, const float* rstd) override {
    launch(__func__, stream, cuda::rmsnorm_backward, scratch_, dx, dx_into, dweight, dweight_into,
           dy, x, weight, rstd);
  }
  void rotary_forward(Stream& stream, Matrix x, const RotaryTables& tables,
                      const std::int32_t* positions) override {
    launch(__func__, stream, cuda::rotary_forward, x, tables, positions);
  }
  void rotary_backward(Stream& stream, Matrix dx, const RotaryTables& tables,
                       const std::int32_t* positions) override {
    launch(__func__, stream, cuda::rotary_backward, dx, tables, positions);
  }
  void embedding_forward(Stream& stream, Matrix x, Into into, const std::int32_t* ids, Matrix table,
                         std::int64_t first_id) override {
    launch(__func__, stream, cuda::embedding_forward, x, into, ids, table, first_id);
  }
  void embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                          const std::int32_t* ids, std::int64_t first_id) override {
    launch(__func__, stream, cuda::embedding_backward, scratch_, dtable, into, dx, ids, first_id);
  }
  void softmax_stats_init(Stream& stream, SoftmaxStats stats, std::int64_t rows) override {
    launch(__func__, stream, cuda::softmax_stats_init, stats, rows);
  }
  void softmax_stats_update(Stream& stream, SoftmaxStats stats, Matrix logits,
                            const std::int32_t* targets, std::int64_t first_id) override {
    launch(__func__, stream, cuda::softmax_stats_update, stats, logits, targets, first_id);
  }
  void cross_entropy_loss(Stream& stream, double* loss_sum, SoftmaxStats stats,
                          const std::int32_t* targets, std::int64_t rows,
                          TargetCounts* counts) override {
    launch(__func__, stream, cuda::cross_entropy_loss, loss_sum, stats, targets, rows, counts);
  }
  void cross_entropy_backward(Stream& stream, Matrix dlogits, Matrix logits, SoftmaxStats stats,
                              const std::int32_t* targets, std::int64_t first_id,
                              float scale) override {
    launch(__func__, stream, cuda::cross_entropy_backward, dlogits, logits, stats, targets,
           first_id, scale);
  }

 private:
  DeviceBuffer memory_;
  Scratch scratch_;
  Linear linear_;
  Attention attention_;
};

}  // namespace
}  // namespace strata::ops::cuda

namespace strata::ops {

STRATA_CUDA_ENTRY_POINT cuda_entry::AttachOps strata_cuda_attach_ops;
STRATA_CUDA_ENTRY_POINT cuda_entry::OpsScratchBytes strata_cuda_ops_scratch_bytes;
STRATA_CUDA_ENTRY_POINT cuda_entry::ChargeOps strata_cuda_charge_ops;
STRATA_CUDA_ENTRY_POINT cuda_entry::MatmulLibrary strata_cuda_matmul_library;

void strata_cuda_attach_ops(Device& device, const CpuOpsLimits& limits) {
  const std::shared_ptr<CudaOps> ops = std::make_shared<cuda::AttachedOps>(device, limits);
  device.attach(ops);  // cuda_ops() casts back to CudaOps
}

std::int64_t strata_cuda_ops_scratch_bytes(const CpuOpsLimits& limits) {
  return round_up(cuda::scratch_bytes(limits), Device::kAlignmentBytes);
}

void strata_cuda_charge_ops(Gpu& gpu, LibraryAttention attention) {
  PlannedAttention planned;
  if (attention == LibraryAttention::planned) planned = cuda::kSmallAttention;
  strata::cuda::check(cudaSetDevice(gpu.index), "cudaSetDevice");
  const cuda::Scratch scratch = {nullptr, planned.workspace_bytes_max};  // plans are made for it
  const cuda::Linear linear(scratch);
  const cuda::Attention of_library(scratch, planned);
  strata::cuda::charge_growth(gpu);
}

void strata_cuda_matmul_library(std::string& name) {
  const std::size_t version = cublasLtGetVersion();
  name = fmt::format("cuBLASLt {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                     cuda::attention_library());
}

}  // namespace strata::ops
