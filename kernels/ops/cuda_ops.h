// CudaOps: the ops of a cuda device. Each function of kernels/ops/<op>.h checks its operands and
// hands them to the function of the same name here; contracts and shapes stand there. What is
// stated there of the order of sums is of the cpu device: here the order is another one, as fixed,
// and stated beside each kernel (kernels/ops/cuda/).
//
// The implementation is in the CUDA backend, a shared object (kernels/device/cuda_backend.h), whose
// entry point attaches it to a device at set-up. Enqueues, never waits. The ops of a device share
// scratch memory: they are enqueued on one stream, or on streams that wait for each other.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device/cuda_backend.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/view.h"

namespace strata::ops {

class CudaOps {
 public:
  virtual ~CudaOps() = default;

  virtual void linear_forward(Stream& stream, Matrix y, Matrix x, Matrix w, const void* bias) = 0;
  virtual void linear_backward_input(Stream& stream, Matrix dx, Matrix dy, Matrix w, Into into) = 0;
  virtual void linear_backward_weight(Stream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                                      Into into) = 0;
  virtual void linear_gelu_forward(Stream& stream, Matrix y, Matrix h, Matrix x, Matrix w,
                                   const void* bias) = 0;
  virtual void linear_gelu_backward_input(Stream& stream, Matrix dh, Matrix dy, Matrix w,
                                          Matrix h) = 0;

  virtual void attention_forward(Stream& stream, const AttentionShape& shape,
                                 const AttentionOptions& options, Matrix out, float* log_sum_exp,
                                 const Qkv& qkv) = 0;
  virtual void attention_backward(Stream& stream, const AttentionShape& shape,
                                  const AttentionOptions& options, const Qkv& gradients,
                                  float* row_dots, Matrix dout, const Qkv& qkv, Matrix out,
                                  const float* log_sum_exp) = 0;
  virtual void attention_with_cache(Stream& stream, const AttentionShape& shape,
                                    const AttentionOptions& options, Matrix out, const Qkv& qkv,
                                    const KvCache& cache, std::int64_t past) = 0;

  virtual void gelu_forward(Stream& stream, Matrix y, Matrix x) = 0;
  virtual void gelu_backward(Stream& stream, Matrix dx, Matrix dy, Matrix x) = 0;
  virtual void swiglu_forward(Stream& stream, Matrix y, Matrix gate, Matrix up) = 0;
  virtual void swiglu_backward(Stream& stream, Matrix dgate, Matrix dup, Matrix dy, Matrix gate,
                               Matrix up) = 0;
  virtual void add(Stream& stream, Matrix y, Matrix a, Matrix b) = 0;

  virtual void layernorm_forward(Stream& stream, Matrix y, float* mean, float* rstd, Matrix x,
                                 const void* weight, const void* bias) = 0;
  virtual void layernorm_backward(Stream& stream, Matrix dx, Into dx_into, float* dweight,
                                  float* dbias, Into parameters, Matrix dy, Matrix x,
                                  const void* weight, const float* mean, const float* rstd) = 0;
  virtual void rmsnorm_forward(Stream& stream, Matrix y, float* rstd, Matrix x, Matrix weight,
                               float epsilon) = 0;
  virtual void rmsnorm_backward(Stream& stream, Matrix dx, Into dx_into, Matrix dweight,
                                Into dweight_into, Matrix dy, Matrix x, Matrix weight,
                                const float* rstd) = 0;

  virtual void rotary_forward(Stream& stream, Matrix x, const RotaryTables& tables,
                              const std::int32_t* positions) = 0;
  virtual void rotary_backward(Stream& stream, Matrix dx, const RotaryTables& tables,
                               const std::int32_t* positions) = 0;

  virtual void embedding_forward(Stream& stream, Matrix x, Into into, const std::int32_t* ids,
                                 Matrix table, std::int64_t first_id) = 0;
  virtual void embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                                  const std::int32_t* ids, std::int64_t first_id) = 0;

  virtual void softmax_stats_init(Stream& stream, SoftmaxStats stats, std::int64_t rows) = 0;
  virtual void softmax_stats_update(Stream& stream, SoftmaxStats stats, Matrix logits,
                                    const std::int32_t* targets, std::int64_t first_id) = 0;
  virtual void cross_entropy_loss(Stream& stream, double* loss_sum, SoftmaxStats stats,
                                  const std::int32_t* targets, std::int64_t rows,
                                  TargetCounts* counts) = 0;
  virtual void cross_entropy_backward(Stream& stream, Matrix dlogits, Matrix logits,
                                      SoftmaxStats stats, const std::int32_t* targets,
                                      std::int64_t first_id, float scale) = 0;
};

// Puts them on a device of the backend, with the scratch memory that ops up to `limits` need, which
// its arena gives. Throws OutOfBudget.
void attach_cuda_ops(const CudaBackend& backend, Device& device, const CpuOpsLimits& limits);
std::int64_t cuda_ops_scratch_bytes(const CudaBackend& backend, const CpuOpsLimits& limits);

// Whether ops will be attached with plans for attention.
enum class LibraryAttention : std::uint8_t { never, planned };
// Adds to gpu.context_bytes what the libraries of ops, once they are loaded, take of the GPU's
// memory beside scratch. Once the GPU is open and before its memory is planned. Throws CudaError.
void charge_cuda_ops(const CudaBackend& backend, Gpu& gpu, LibraryAttention attention);

// Name and version of the library that multiplies, and of the one that computes attention.
std::string cuda_matmul_library(const CudaBackend& backend);

namespace cuda_entry {
using AttachOps = void(Device& device, const CpuOpsLimits& limits);  // strata_cuda_attach_ops
using OpsScratchBytes = std::int64_t(const CpuOpsLimits& limits);  // strata_cuda_ops_scratch_bytes
using ChargeOps = void(Gpu& gpu, LibraryAttention attention);      // strata_cuda_charge_ops
using MatmulLibrary = void(std::string& name);                     // strata_cuda_matmul_library
}  // namespace cuda_entry

// Null where the stream's device is another one.
CudaOps* cuda_ops(Stream& stream);

}  // namespace strata::ops
