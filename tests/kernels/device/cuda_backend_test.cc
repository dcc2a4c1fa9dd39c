// The backend is found, loaded and told apart from what is none. Without the CUDA toolkit there is
// none to load.
#include "kernels/device/cuda_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata {
namespace {

using test::error_text;
using test::mentions;

TEST(CudaBackend, AFileThatIsNotThereIsNamed) {
  const std::string text = error_text<ConfigError>([] { CudaBackend("/no/such/backend.so"); });
  EXPECT_TRUE(mentions(text, "/no/such/backend.so")) << text;
}

TEST(CudaBackend, AnotherLibraryIsNone) {
  const std::string text = error_text<ConfigError>([] { CudaBackend("libm.so.6"); });
  EXPECT_TRUE(mentions(text, "libm.so.6 is no CUDA backend")) << text;
}

TEST(CudaBackend, ThatOfAnotherBuildIsRefused) {
  const std::string text = error_text<ConfigError>([] { CudaBackend(STRATA_WRONG_STAMP_BACKEND); });
  EXPECT_TRUE(mentions(text, "another build") && mentions(text, "0.0.0-other")) << text;
}

TEST(CudaEnvironment, IsTheUsersButForWhatChangesBits) {
  ::unsetenv("CUDA_MODULE_LOADING");
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  ::setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "0", 1);
  set_cuda_environment();
  EXPECT_STREQ(::getenv("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_STREQ(::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
  EXPECT_EQ(::getenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT"), nullptr);
}

// STRATA_CUDA_BACKEND while it lives.
class NamedBackend {
 public:
  explicit NamedBackend(const char* path) { ::setenv("STRATA_CUDA_BACKEND", path, 1); }
  ~NamedBackend() { ::unsetenv("STRATA_CUDA_BACKEND"); }
};

TEST(FindCudaBackend, SaysWhyThereIsNone) {
  const NamedBackend named("/no/such/backend.so");
  const CudaSearch search = find_cuda_backend();
  EXPECT_FALSE(search.backend.has_value());
  EXPECT_TRUE(mentions(search.reason, "/no/such/backend.so")) << search.reason;
}

TEST(FindCudaBackend, FindsOneOrAReasonOnThisMachine) {
  const CudaSearch search = find_cuda_backend();
  EXPECT_NE(search.backend.has_value(), !search.reason.empty()) << search.reason;
}

#ifdef STRATA_SIMULATED_BACKEND
TEST(FindCudaBackend, MakesADeviceOfTheOneThatIsNamed) {
  const NamedBackend named(STRATA_SIMULATED_BACKEND);
  const CudaSearch search = find_cuda_backend();
  ASSERT_TRUE(search.backend.has_value()) << search.reason;
  const Gpu gpu = search.backend->open_gpu(0);
  EXPECT_GT(gpu.context_bytes, 0);
  Budget host("host memory", kMiB);
  FailureLatch failure;
  const auto device =
      search.backend->make_device({gpu, gpu.context_bytes + kMiB, -1}, host, failure);
  EXPECT_EQ(device->kind(), DeviceKind::cuda);
  const PinnedBuffer pinned = device->allocate_pinned("pinned", 4096);
  const DeviceBuffer buffer = device->allocate("buffer", 4096);
  const auto stream = device->make_stream("work");
  pinned.data()[0] = std::byte{1};
  stream->fill_zero(buffer.data(), 4096);
  stream->copy(pinned.data(), buffer.data(), 4096);
  stream->synchronize();
  EXPECT_EQ(pinned.data()[0], std::byte{0});
  EXPECT_THROW((void)device->allocate("more", kMiB), OutOfBudget)
      << "errors of one are the other's";
}
#endif

#ifdef STRATA_BUILT_BACKEND
// Its libraries are found too; whether there is a GPU is another question.
TEST(CudaBackend, TheOneOfThisBuildLoads) { EXPECT_NO_THROW(CudaBackend{STRATA_BUILT_BACKEND}); }
#endif

}  // namespace
}  // namespace strata
