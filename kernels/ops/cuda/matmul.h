// Matrix products by cuBLASLt. It is column-major: what it computes is the transpose of the result,
// from the factors in the other order, each seen as its transpose; nothing is moved for that.
//
// Products are summed in f32 (of f32 operands too: no TF32). Bits depend on shapes, strides,
// alignments and the library alone: its choice among its algorithms is made for a fixed workspace,
// once for each kind of product, and only among those that sum parts in a fixed order (partial sums
// in f32 in the workspace, no in-place reduction). The first product of a kind allocates; later
// ones do not.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

enum class Layout : std::uint8_t { as_stored, transposed };

struct Factor {
  Matrix memory;
  Layout layout = Layout::as_stored;
};

enum class Gelu : std::uint8_t { none, forward, backward };

// What becomes of a sum before it is rounded: s + bias; with Gelu::forward that is kept in
// gelu_input, and gelu of it is the result; with Gelu::backward the result is s ·
// gelu'(gelu_input). cuBLASLt's GELU is the tanh form, as ours.
struct Epilogue {
  const void* bias = nullptr;  // a row, of the result's dtype
  Gelu gelu = Gelu::none;
  Matrix gelu_input = {};  // of the result's shape
};

// Deletes what a create function of cuBLASLt made.
template <auto kDestroy>
struct CublasLtDelete {
  template <typename T>
  void operator()(T* handle) const {
    (void)kDestroy(handle);
  }
};
template <typename Handle, auto kDestroy>
using CublasLtHandle = std::unique_ptr<std::remove_pointer_t<Handle>, CublasLtDelete<kDestroy>>;

class Matmul {
 public:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;  // as cuBLAS on sm_90

  // Of the workspace it uses kWorkspaceBytes.
  explicit Matmul(const Scratch& workspace);

  // Whether `result` = … + bias is one kernel.
  static bool can_add_bias(const Matrix& result, const Matrix& factor, const void* bias);
  // Whether all of this is one kernel: a matter of shapes, strides, alignments, the library and the
  // GPU.
  bool can_multiply(const Matrix& result, const Factor& left, const Factor& right,
                    const Epilogue& epilogue);

  // result = or += left · right, and its epilogue.
  void multiply(cudaStream_t stream, const Matrix& result, const Factor& left, const Factor& right,
                Into into, const Epilogue& epilogue = {});

 private:
  // A column-major matrix of cuBLASLt.
  struct Operand {
    Dtype dtype;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t stride;
    std::uint32_t alignment_bytes;  // of its address
    auto operator<=>(const Operand&) const = default;
  };
  static Operand operand(const Matrix& matrix);

  struct Kind {
    Operand a;
    Operand b;
    Operand d;
    Layout a_layout;
    Layout b_layout;
    bool bias;
    Gelu gelu;
    std::int64_t gelu_input_stride;
    auto operator<=>(const Kind&) const = default;
  };
  struct Plan {
    CublasLtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
    CublasLtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a;
    CublasLtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> b;
    CublasLtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> d;
    std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: cuBLASLt has none,
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  // and says so
  };
  static Kind kind_of(const Matrix& result, const Factor& left, const Factor& right,
                      const Epilogue& epilogue);
  static void set_pointers(const Plan& plan, const Epilogue& epilogue);
  const Plan& plan_for(const Kind& kind, const Epilogue& epilogue);
  Plan make_plan(const Kind& kind, const Epilogue& epilogue) const;
  void choose_algorithm(Plan& plan, const Kind& kind) const;

  CublasLtHandle<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::byte* workspace_;
  bool fuses_gelu_;
  std::mutex mutex_;  // of what follows, and of the descriptors' pointers
  std::map<Kind, Plan> plans_;
};

}  // namespace strata::ops::cuda
