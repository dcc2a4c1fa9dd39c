#include "kernels/ops/cuda/matmul.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata::ops::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  strata::cuda::check(cudaGetLastError(), what);  // of an earlier kernel, which is to blame
  throw_error<CudaError>("{}: {}", what, cublasLtGetStatusName(status));
}

cudaDataType type_of(Dtype dtype) { return dtype == Dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasOperation_t operation_of(Layout layout) {
  return layout == Layout::transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cublasLtEpilogue_t epilogue_of(bool bias, Gelu gelu) {
  if (gelu == Gelu::backward) return CUBLASLT_EPILOGUE_DGELU;
  if (gelu == Gelu::forward) {
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  }
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// What algorithms may ask for: 16 bytes are enough for any.
std::uint32_t alignment_of(const void* address) {
  constexpr std::uint32_t kMost = 16;
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | kMost;
  return std::uint32_t{1} << std::countr_zero(bits);
}

// Whether cuBLASLt's GELU is part of a product's kernel on the current GPU: on sm_90 and sm_100. On
// sm_89 and sm_120 the two are slower than a product and our kernel (llm.c's pull requests 338 and
// 591, sglang's 34350).
bool fuses_gelu() {
  int gpu = 0;
  strata::cuda::check(cudaGetDevice(&gpu), "cudaGetDevice");
  cudaDeviceProp properties;
  strata::cuda::check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return properties.major == 9 || properties.major == 10;
}

template <auto kSet, typename Descriptor, typename Attribute, typename Value>
void set(Descriptor descriptor, Attribute attribute, const Value& value) {
  check(kSet(descriptor, attribute, &value, sizeof(value)), "cublasLt: an attribute");
}

}  // namespace

Matmul::Matmul(const Scratch& workspace)
    : workspace_(workspace.as<std::byte>("cuBLASLt", kWorkspaceBytes)), fuses_gelu_(fuses_gelu()) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

Matmul::Operand Matmul::operand(const Matrix& matrix) {
  return {matrix.dtype, matrix.cols, matrix.rows, matrix.stride, alignment_of(matrix.data)};
}

// cuBLASLt wants a bias of the result's dtype, which is bf16 only from bf16 factors, and reads
// it in vectors.
bool Matmul::can_add_bias(const Matrix& result, const Matrix& factor, const void* bias) {
  return result.dtype == factor.dtype && alignment_of(bias) == 16;
}

// cuBLASLt has the input of a GELU in the result's dtype, its rows apart by a multiple of 8. In f32
// its tanh may be an approximation.
bool Matmul::can_multiply(const Matrix& result, const Factor& left, const Factor& right,
                          const Epilogue& epilogue) {
  if (epilogue.bias != nullptr && !can_add_bias(result, left.memory, epilogue.bias)) return false;
  if (epilogue.gelu != Gelu::none) {
    const Matrix& input = epilogue.gelu_input;
    if (!fuses_gelu_ || result.dtype != Dtype::bf16 || input.dtype != Dtype::bf16 ||
        input.stride % 8 != 0 || alignment_of(input.data) != 16) {
      return false;
    }
  }
  const std::lock_guard lock(mutex_);
  return plan_for(kind_of(result, left, right, epilogue), epilogue).algorithm.has_value();
}

Matmul::Kind Matmul::kind_of(const Matrix& result, const Factor& left, const Factor& right,
                             const Epilogue& epilogue) {
  return {.a = operand(right.memory),
          .b = operand(left.memory),
          .d = operand(result),
          .a_layout = right.layout,
          .b_layout = left.layout,
          .bias = epilogue.bias != nullptr,
          .gelu = epilogue.gelu,
          .gelu_input_stride = epilogue.gelu_input.stride};
}

void Matmul::multiply(cudaStream_t stream, const Matrix& result, const Factor& left,
                      const Factor& right, Into into, const Epilogue& epilogue) {
  const Kind kind = kind_of(result, left, right, epilogue);
  const float one = 1;
  const float beta = into == Into::add ? 1.0f : 0.0f;
  const std::lock_guard lock(mutex_);
  const Plan& plan = plan_for(kind, epilogue);
  if (!plan.algorithm) {
    throw_error<CudaError>(
        "cuBLASLt has no algorithm for {} rows of {} columns {} apart in {}, of sums of {} {} ({})",
        kind.d.cols, kind.d.rows, kind.d.stride, name_of(kind.d.dtype),
        kind.a_layout == Layout::as_stored ? kind.a.cols : kind.a.rows, name_of(kind.a.dtype),
        cublasLtGetStatusName(plan.status));
  }
  set_pointers(plan, epilogue);
  check(
      cublasLtMatmul(handle_.get(), plan.product.get(), &one, right.memory.data, plan.a.get(),
                     left.memory.data, plan.b.get(), &beta, result.data, plan.d.get(), result.data,
                     plan.d.get(), &*plan.algorithm, workspace_, kWorkspaceBytes, stream),
      "cublasLtMatmul");
}

void Matmul::set_pointers(const Plan& plan, const Epilogue& epilogue) {
  const auto point = [&](cublasLtMatmulDescAttributes_t attribute, const void* address) {
    set<cublasLtMatmulDescSetAttribute>(plan.product.get(), attribute, address);
  };
  if (epilogue.bias != nullptr) point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.gelu != Gelu::none) {
    point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.gelu_input.data);
  }
}

const Matmul::Plan& Matmul::plan_for(const Kind& kind, const Epilogue& epilogue) {
  const auto known = plans_.find(kind);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(kind, make_plan(kind, epilogue)).first->second;
}

Matmul::Plan Matmul::make_plan(const Kind& kind, const Epilogue& epilogue) const {
  Plan plan;
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  plan.product.reset(product);
  const auto set_product = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    set<cublasLtMatmulDescSetAttribute>(product, attribute, value);
  };
  set_product(CUBLASLT_MATMUL_DESC_TRANSA, operation_of(kind.a_layout));
  set_product(CUBLASLT_MATMUL_DESC_TRANSB, operation_of(kind.b_layout));
  set_product(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(kind.bias, kind.gelu));
  if (kind.gelu != Gelu::none) {
    set_product(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kind.gelu_input_stride);
  }
  set_pointers(plan, epilogue);  // the choice depends on their alignments
  const auto layout = [](auto& handle, const Operand& of) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type_of(of.dtype), static_cast<std::uint64_t>(of.rows),
                                     static_cast<std::uint64_t>(of.cols), of.stride),
          "cublasLtMatrixLayoutCreate");
    handle.reset(made);
  };
  layout(plan.a, kind.a);
  layout(plan.b, kind.b);
  layout(plan.d, kind.d);
  choose_algorithm(plan, kind);
  return plan;
}

void Matmul::choose_algorithm(Plan& plan, const Kind& kind) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const CublasLtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(
      made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    set<cublasLtMatmulPreferenceSetAttribute>(made, attribute, value);
  };
  const std::uint32_t reductions =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.a.alignment_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.b.alignment_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.d.alignment_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.d.alignment_bytes);

  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  plan.status =
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.product.get(), plan.a.get(), plan.b.get(),
                                     plan.d.get(), plan.d.get(), made, 1, &best, &found);
  if (plan.status == CUBLAS_STATUS_SUCCESS && found > 0) plan.algorithm = best.algo;
}

}  // namespace strata::ops::cuda
