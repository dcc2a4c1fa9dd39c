// Two streams that touch the same device memory without an order between them are a race that
// ThreadSanitizer reports, whichever is faster: a kernel, a copy or a fill. So are ops on such
// streams that share scratch memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cuda_sim/sim_device.h"
#include "kernels/ops/cuda/bias.h"
#include "kernels/ops/cuda/matmul.h"

namespace strata::cuda_sim {
namespace {

using cuda::launch;
using cuda::load;
using cuda::store;
using cuda::sync_threads;
using cuda::thread_index;
using ops::Into;
using ops::Matrix;
using ops::cuda::Matmul;
using ops::cuda::Scratch;

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
constexpr int kRaceReported = 66;  // ThreadSanitizer's default exitcode
constexpr int kThreads = 64;

__global__ void write_numbers(int* x) {
  sync_threads();  // by way of every fiber
  store(x + thread_index(), thread_index());
}
__global__ void add_one(int* x) { store(x + thread_index(), load(x + thread_index()) + 1); }

enum class Order { none, event };
using Second = void (*)(cudaStream_t stream, int* x);

void kernel(cudaStream_t stream, int* x) {
  EXPECT_CUDA(launch(stream, {.threads = kThreads}, add_one, x));
}
void fill(cudaStream_t stream, int* x) {
  EXPECT_CUDA(cudaMemsetAsync(x, 0, kThreads * sizeof(int), stream));
}
void copy(cudaStream_t stream, int* x) { (void)read(stream, x, kThreads); }

Scratch scratch_in(int* x) { return {reinterpret_cast<std::byte*>(x), Matmul::kWorkspaceBytes}; }
void sums_in_scratch(cudaStream_t stream, int* x) {
  const Memory<float> dy(32 * 16);
  const Memory<float> dbias(16);
  ops::cuda::bias_gradient(stream, scratch_in(x), dbias.data(),
                           Matrix::dense(dy.data(), Dtype::f32, 32, 16), Into::overwrite);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}
void product_in_scratch(cudaStream_t stream, int* x) {
  const Memory<float> values(16 * 16);
  const Memory<float> result(16 * 16);
  const Matrix factor = Matrix::dense(values.data(), Dtype::f32, 16, 16);
  Matmul(scratch_in(x))
      .multiply(stream, Matrix::dense(result.data(), Dtype::f32, 16, 16), {factor}, {factor},
                Into::overwrite, {});
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

[[noreturn]] void write_then(Order order, Second second) {
  {
    const Memory<int> x(Matmul::kWorkspaceBytes / sizeof(int));
    const TestStream first_stream;
    const TestStream second_stream;
    const TestEvent event;
    EXPECT_CUDA(launch(first_stream, {.threads = kThreads}, write_numbers, x.data()));
    EXPECT_CUDA(cudaEventRecord(event, first_stream));
    if (order == Order::event) {
      EXPECT_CUDA(cudaStreamWaitEvent(second_stream, event, 0));
    }
    second(second_stream, x.data());
    EXPECT_CUDA(cudaStreamSynchronize(first_stream));
    EXPECT_CUDA(cudaStreamSynchronize(second_stream));
  }
  std::exit(EXIT_SUCCESS);
}

class Race : public testing::TestWithParam<Second> {};

TEST_P(Race, IsReportedUnlessAnEventOrdersTheStreams) {
  if (!kThreadSanitizer) GTEST_SKIP() << "needs a build with STRATA_SANITIZE=thread";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const set = std::getenv("TSAN_OPTIONS");
  ::setenv("TSAN_OPTIONS", (std::string(set == nullptr ? "" : set) + " halt_on_error=1").c_str(),
           1);
  EXPECT_EXIT(write_then(Order::event, GetParam()), testing::ExitedWithCode(EXIT_SUCCESS), "");
  EXPECT_EXIT(write_then(Order::none, GetParam()), testing::ExitedWithCode(kRaceReported),
              "data race");
}

INSTANTIATE_TEST_SUITE_P(Second, Race,
                         testing::Values(&kernel, &fill, &copy, &sums_in_scratch,
                                         &product_in_scratch));

}  // namespace
}  // namespace strata::cuda_sim
