// cuDNN's attention (cudnn/attention.cc), which is in a backend that was built where cudnn.h and
// cudnn_frontend.h are. The library itself is loaded at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/ops/attention.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {

// Plans are made once for each kind of call, which allocates on the host; their workspace is the
// scratch memory. Both return false, with nothing enqueued, where cuDNN has no plan for the call or
// one that needs more workspace. Operands are as own_attention_because() wants them.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual bool forward(cudaStream_t stream, const AttentionShape& shape,
                       const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                       const Qkv& qkv) = 0;
  virtual bool backward(cudaStream_t stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Qkv& gradients, const Matrix& dout,
                        const Qkv& qkv, const Matrix& out, const float* log_sum_exp) = 0;
};

// The library's name and version; empty where there is none, one that is too old, or the
// environment has STRATA_OWN_ATTENTION.
std::string cudnn_version();
// Null where cudnn_version() is empty.
std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& workspace);

}  // namespace strata::ops::cuda
