// linear.h on a cuda device. Products by cuBLASLt (matmul.h), bias and GELU in its epilogue where
// it has one kernel for both; else the bias is put into the result before, and the GELU has a
// kernel of its own. So has the bias gradient: that of cuBLASLt's epilogue cannot be added to what
// is there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/cuda/matmul.h"
#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

class Linear {
 public:
  static constexpr std::int64_t kScratchBytes = Matmul::kWorkspaceBytes;

  explicit Linear(const Scratch& scratch) : matmul_(scratch), scratch_(scratch) {}

  void forward(cudaStream_t stream, const Matrix& y, const Matrix& x, const Matrix& w,
               const void* bias);
  void backward_input(cudaStream_t stream, const Matrix& dx, const Matrix& dy, const Matrix& w,
                      Into into);
  void backward_weight(cudaStream_t stream, const Matrix& dw, float* dbias, const Matrix& dy,
                       const Matrix& x, Into into);
  void gelu_forward(cudaStream_t stream, const Matrix& y, const Matrix& h, const Matrix& x,
                    const Matrix& w, const void* bias);
  void gelu_backward_input(cudaStream_t stream, const Matrix& dh, const Matrix& dy, const Matrix& w,
                           const Matrix& h);

 private:
  Matmul matmul_;
  Scratch scratch_;
};

}  // namespace strata::ops::cuda
