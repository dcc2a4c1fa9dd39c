// What the simulated cuBLASLt refuses, and the order of its sums. What it computes is tested with
// the ops that use it.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda_sim/faults.h"
#include "cuda_sim/sim_device.h"

namespace strata::cuda_sim {
namespace {

constexpr std::int64_t kWorkspaceBytes = 1 << 20;

// d (rows, cols) = a (rows, sums) · b (sums, cols), column-major and dense.
struct Sizes {
  std::uint64_t rows;
  std::uint64_t cols;
  std::uint64_t sums;
};
constexpr Sizes kSizes = {8, 4, 300};

class Product {
 public:
  explicit Product(Sizes sizes = kSizes, cudaDataType a = CUDA_R_32F, cudaDataType d = CUDA_R_32F,
                   cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&product_, compute, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    const auto stride = [](std::uint64_t rows) { return static_cast<std::int64_t>(rows); };
    cublasLtMatrixLayoutCreate(&a_, a, sizes.rows, sizes.sums, stride(sizes.rows));
    cublasLtMatrixLayoutCreate(&b_, CUDA_R_32F, sizes.sums, sizes.cols, stride(sizes.sums));
    cublasLtMatrixLayoutCreate(&d_, d, sizes.rows, sizes.cols, stride(sizes.rows));
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  }
  ~Product() {
    for (const cublasLtMatrixLayout_t layout : {a_, b_, d_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t choose(cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, product_, a_, b_, d_, d_,
                                                                 preference_, 1, &result, &found);
    EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    algorithm = result.algo;
    return status;
  }
  // Zeros times zeros.
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, float* a, const float* b, float* d,
                     std::int64_t workspace_bytes = kWorkspaceBytes) {
    const float one = 1;
    const float zero = 0;
    const TestStream stream;
    const strata::cuda_sim::Memory<std::byte> workspace(kWorkspaceBytes);
    const cublasStatus_t status =
        cublasLtMatmul(handle_, product_, &one, a, a_, b, b_, &zero, d, d_, d, d_, &algorithm,
                       workspace.data(), static_cast<std::size_t>(workspace_bytes), stream);
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    return status;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t d_ = nullptr;
};

struct Operands {
  strata::cuda_sim::Memory<float> a{2 * static_cast<std::int64_t>(kSizes.rows * kSizes.sums)};
  strata::cuda_sim::Memory<float> b{static_cast<std::int64_t>(kSizes.sums * kSizes.cols)};
  strata::cuda_sim::Memory<float> d{static_cast<std::int64_t>(kSizes.rows * kSizes.cols)};
};

TEST(CublasLt, HasNoAlgorithmForWhatTheRealOneDoesNotSupport) {
  cublasLtMatmulAlgo_t algorithm;
  EXPECT_EQ(Product().choose(algorithm), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Product(kSizes, CUDA_R_16BF).choose(algorithm), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Product(kSizes, CUDA_R_32F, CUDA_R_16BF).choose(algorithm),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Product(kSizes, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_16F).choose(algorithm),
            CUBLAS_STATUS_NOT_SUPPORTED);
  Product without_bias;
  without_bias.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(without_bias.choose(algorithm), CUBLAS_STATUS_NOT_SUPPORTED);
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_DGELU}) {
    Product gelu;
    gelu.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    EXPECT_EQ(gelu.choose(algorithm), CUBLAS_STATUS_NOT_SUPPORTED);
    const strata::cuda_sim::Memory<float> input(256);
    gelu.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, input.data());
    for (const auto& [stride, status] : {std::pair(std::int64_t{12}, CUBLAS_STATUS_NOT_SUPPORTED),
                                         std::pair(std::int64_t{0}, CUBLAS_STATUS_NOT_SUPPORTED),
                                         std::pair(std::int64_t{16}, CUBLAS_STATUS_SUCCESS)}) {
      gelu.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, stride);
      EXPECT_EQ(gelu.choose(algorithm), status) << stride;
    }
  }
  Product transposed;  // a (rows, sums) becomes (sums, rows)
  transposed.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  EXPECT_EQ(transposed.choose(algorithm), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(CublasLt, RefusesWhatItsAlgorithmWasNotChosenFor) {
  const Operands of;
  Product product;
  cublasLtMatmulAlgo_t algorithm;
  ASSERT_EQ(product.choose(algorithm), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run(algorithm, of.a.data(), of.b.data(), of.d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run(algorithm, of.a.data() + 4, of.b.data(), of.d.data()),
            CUBLAS_STATUS_INVALID_VALUE)
      << "of 256 bytes, where nothing else is stated";
  EXPECT_EQ(product.run(algorithm, of.a.data(), of.b.data(), of.d.data(), 100),
            CUBLAS_STATUS_INVALID_VALUE);
  Product other({4, 4, 300});
  EXPECT_EQ(other.run(algorithm, of.a.data(), of.b.data(), of.d.data()),
            CUBLAS_STATUS_NOT_SUPPORTED);

  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{16});
  ASSERT_EQ(product.choose(algorithm), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run(algorithm, of.a.data() + 4, of.b.data(), of.d.data()),
            CUBLAS_STATUS_SUCCESS);
}

// Entries of different sizes: another order gives other bits.
TEST(CublasLt, SumsInAnyOrderOnlyWhereThatIsAllowed) {
  const Operands of;
  const TestStream stream;
  Pinned<float> a(static_cast<std::int64_t>(kSizes.rows * kSizes.sums));
  Pinned<float> b(static_cast<std::int64_t>(kSizes.sums * kSizes.cols), 1);
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    a.data()[i] = 1 / static_cast<float>(i + 1);
  }
  EXPECT_CUDA(cudaMemcpyAsync(of.a.data(), a.data(), a.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaMemcpyAsync(of.b.data(), b.data(), b.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  Product product;
  const auto same_bits_twice = [&] {
    cublasLtMatmulAlgo_t algorithm;
    EXPECT_EQ(product.choose(algorithm), CUBLAS_STATUS_SUCCESS);
    std::vector<float> results[2];
    for (std::vector<float>& result : results) {
      EXPECT_EQ(product.run(algorithm, of.a.data(), of.b.data(), of.d.data()),
                CUBLAS_STATUS_SUCCESS);
      result = read<float>(stream, of.d.data(), static_cast<std::int64_t>(kSizes.rows));
    }
    return results[0] == results[1];
  };
  EXPECT_FALSE(same_bits_twice());
  product.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  EXPECT_TRUE(same_bits_twice());
}

TEST(CublasLt, FailsWhereAFaultIsPlanted) {
  const Operands of;
  Product product;
  cublasLtMatmulAlgo_t algorithm;
  ASSERT_EQ(product.choose(algorithm), CUBLAS_STATUS_SUCCESS);
  fail_call("cublasLtMatmul", 1, CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(product.run(algorithm, of.a.data(), of.b.data(), of.d.data()),
            CUBLAS_STATUS_EXECUTION_FAILED);
  mend();
}

TEST(CublasLtDeathTest, SeesOperandsOutsideTheirMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Operands of;
        Product product;
        cublasLtMatmulAlgo_t algorithm;
        product.choose(algorithm);
        product.run(algorithm, of.a.data(), of.d.data(), of.d.data());  // b is shorter
      },
      "cublasLtMatmul");
}

}  // namespace
}  // namespace strata::cuda_sim
