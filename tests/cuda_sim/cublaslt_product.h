// What the simulated cuBLASLt multiplies: its descriptors, and the arithmetic, in f32 and one term
// after the other.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace strata::cuda_sim {

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale_type = CUDA_R_32F;
  cublasOperation_t a_operation = CUBLAS_OP_N;
  cublasOperation_t b_operation = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;  // the GELU's input
  std::int64_t aux_stride = 0;

  bool has_bias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool keeps_gelu_input() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool has_aux() const { return keeps_gelu_input() || epilogue == CUBLASLT_EPILOGUE_DGELU; }
};

struct MatrixLayout {  // column-major
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  friend bool operator==(const MatrixLayout&, const MatrixLayout&) = default;

  std::int64_t element_bytes() const { return type == CUDA_R_16BF ? 2 : 4; }
};

struct Problem {
  Product product;
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout d;

  std::int64_t sums() const { return product.a_operation == CUBLAS_OP_N ? a.cols : a.rows; }

  bool fits_together() const {
    const bool a_plain = product.a_operation == CUBLAS_OP_N;
    const bool b_plain = product.b_operation == CUBLAS_OP_N;
    return (a_plain ? a.rows : a.cols) == d.rows && (b_plain ? b.cols : b.rows) == d.cols &&
           (b_plain ? b.rows : b.cols) == sums();
  }
  bool supported() const;
  // FNV-1a of what an algorithm is chosen by.
  std::uint16_t hash() const;
};

// In device memory.
struct Operands {
  const void* a;
  const void* b;
  void* d;
  float alpha;
  float beta;
};

// `backwards`: the terms of each sum from the last to the first.
void multiply(const Problem& problem, const Operands& operands, bool backwards);

}  // namespace strata::cuda_sim
