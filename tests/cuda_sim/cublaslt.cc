// The functions of cuBLASLt that the project calls: products in f32, one after the other, on the
// stream's thread. What the real one refuses or punishes is refused or reported here: unsupported
// types, layouts that do not fit together, an algorithm of another problem, and memory that is
// misaligned or too small for the algorithm that was chosen. Of epilogues there are those that are
// used: a bias, a GELU that keeps its input, both, and the GELU's gradient.
//
// Where the preference allows in-place reductions, the order of sums changes from call to call.
#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cuda_sim/cublaslt_product.h"
#include "cuda_sim/faults.h"
#include "cuda_sim/memory.h"
#include "cuda_sim/stream.h"

using namespace strata::cuda_sim;

namespace {

struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c, d
};

// What the heuristic chose, and for what.
struct Algorithm {
  std::uint16_t shape_hash;
  std::uint16_t alignments[4];
  std::uint16_t any_order;
  std::uint32_t workspace_bytes;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

const Product& product_of(cublasLtMatmulDesc_t desc) {
  return *reinterpret_cast<const Product*>(desc);
}
const MatrixLayout& layout_of(cublasLtMatrixLayout_t desc) {
  return *reinterpret_cast<const MatrixLayout*>(desc);
}

template <typename Body>
cublasStatus_t call(const char* function, Body body) {
  if (device_error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (const int fault = take_call_fault(function)) return static_cast<cublasStatus_t>(fault);
  return body();
}

template <typename Value>
cublasStatus_t set(Value& attribute, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool aligned(const void* address, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call("cublasLtCreate", [&] {
    *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_…";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(
      new Product{.compute = compute, .scale_type = scale_type});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Product*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  Product& product = *reinterpret_cast<Product*>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product.a_operation, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product.b_operation, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(product.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(product.aux_stride, value, bytes);
    default:
      report("cublasLtMatmulDescSetAttribute: attribute {} is not simulated",
             static_cast<int>(attribute));
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* desc, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
  const MatrixLayout layout = {type, static_cast<std::int64_t>(rows),
                               static_cast<std::int64_t>(cols), stride};
  if (rows == 0 || cols == 0 || stride < layout.rows) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = reinterpret_cast<cublasLtMatrixLayout_t>(new MatrixLayout(layout));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t desc) {
  delete reinterpret_cast<MatrixLayout*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  Preference& preference = *reinterpret_cast<Preference*>(of);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                 value, bytes);
    default:
      report("cublasLtMatmulPreferenceSetAttribute: attribute {} is not simulated",
             static_cast<int>(attribute));
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t of, int count,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  return call("cublasLtMatmulAlgoGetHeuristic", [&] {
    *found = 0;
    const Problem problem = {product_of(product), layout_of(a), layout_of(b), layout_of(d)};
    if (count < 1 || layout_of(c) != problem.d || !problem.fits_together()) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!problem.supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
    const Preference& preference = *reinterpret_cast<const Preference*>(of);
    const bool in_place = (preference.reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
    Algorithm algorithm = {.shape_hash = problem.hash(),
                           .alignments = {},
                           .any_order = in_place,
                           .workspace_bytes = static_cast<std::uint32_t>(
                               std::min<std::uint64_t>(preference.workspace_bytes, 64 << 10))};
    std::ranges::copy(preference.alignments, algorithm.alignments);
    results[0] = {};
    std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
    results[0].workspaceSize = algorithm.workspace_bytes;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  return call("cublasLtMatmul", [&] {
    const Problem problem = {product_of(product), layout_of(a_layout), layout_of(b_layout),
                             layout_of(d_layout)};
    if (c != d) report("cublasLtMatmul: c apart from d is not simulated");
    if (layout_of(c_layout) != problem.d || !problem.fits_together() || algo == nullptr) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!problem.supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
    Algorithm algorithm;
    std::memcpy(&algorithm, algo, sizeof(algorithm));
    if (algorithm.shape_hash != problem.hash()) return CUBLAS_STATUS_NOT_SUPPORTED;
    const void* const operands[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
      if (!aligned(operands[i], algorithm.alignments[i])) return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (workspace_bytes < algorithm.workspace_bytes || !aligned(workspace, 256)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (problem.product.has_bias() && !aligned(problem.product.bias, 16)) {
      report("cublasLtMatmul: a misaligned bias");
    }
    if (problem.product.has_aux() && !aligned(problem.product.aux, 16)) {
      report("cublasLtMatmul: a misaligned input of GELU");
    }

    static std::atomic<int> calls = 0;
    const bool backwards = algorithm.any_order != 0 && calls.fetch_add(1) % 2 == 1;
    const Operands values = {a, b, d, *static_cast<const float*>(alpha),
                             *static_cast<const float*>(beta)};
    const std::int64_t partial_bytes = algorithm.workspace_bytes;
    enqueue(stream, "cublasLtMatmul", [=] {
      if (partial_bytes > 0) {
        std::memset(checked_range(workspace, partial_bytes, Access::write), 0xFF,
                    static_cast<std::size_t>(partial_bytes));
      }
      multiply(problem, values, backwards);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}
