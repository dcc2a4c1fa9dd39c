// cuDNN's attention (cudnn/attention.cc), which is in a backend that was built where cudnn.h and
// cudnn_frontend.h are. The library itself is loaded at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/ops/attention.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {

// Of planned calls alone, of any number of sequences (is_planned()). Both return false, with
// nothing enqueued, where cuDNN had no plan for such, or one that needs more workspace.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual bool forward(cudaStream_t stream, std::int64_t sequences, const Matrix& out,
                       float* log_sum_exp, const Qkv& qkv) = 0;
  virtual bool backward(cudaStream_t stream, std::int64_t sequences, const Qkv& gradients,
                        const Matrix& dout, const Qkv& qkv, const Matrix& out,
                        const float* log_sum_exp) = 0;
};

// The library's name and version, and those of what describes graphs to it; empty where there is
// none, one that is too old, or the environment has STRATA_OWN_ATTENTION.
std::string cudnn_version();
// Makes all plans, which takes host and device memory, and seconds; later calls take no more. Null
// where cudnn_version() is empty.
std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& workspace,
                                                     const PlannedAttention& planned);

}  // namespace strata::ops::cuda
