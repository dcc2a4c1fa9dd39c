// Which devices several ranks take: here they are threads of one process, and so see the same GPU.
#include "engine/run/rank_devices.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/thread_ranks.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

class RankDevices : public ::testing::Test {
 protected:
  RankDevices() { ::setenv("STRATA_CUDA_BACKEND", STRATA_SIMULATED_BACKEND, 1); }

  // Of each of two ranks: the reason for its device, the cpu; or what it throws.
  static std::vector<std::string> texts_of(const std::vector<Options>& options) {
    std::vector<std::string> texts(options.size());
    test::ThreadRanks ranks(static_cast<int>(options.size()));
    const auto failures = ranks.run([&](comm::Communicator& comm) {
      FailureLatch failure;
      const auto rank = static_cast<std::size_t>(comm.rank());
      const auto keep_reason = [&](Ranks& joined) {
        EXPECT_FALSE(joined.device.gpu);
        texts[rank] = joined.device.reason;
        return 0;
      };
      run_on_devices(options[rank], {comm, failure, {}, {}}, keep_reason);
    });
    for (std::size_t rank = 0; rank < failures.size(); ++rank) {
      if (!failures[rank]) continue;
      texts[rank] = error_text<AgreedFailure>([&] { std::rethrow_exception(failures[rank]); });
    }
    return texts;
  }
  static Options on(const std::string& device) {
    Options options;
    options.device = device;
    return options;
  }
};

TEST_F(RankDevices, TwoOnOneGpuAreRefusedAndAutoTakesTheProcessors) {
  for (const char* device : {"cuda", "auto"}) {
    for (const std::string& text : texts_of({on(device), on(device)})) {
      EXPECT_PRED2(mentions, text, "ranks 0 and 1 have the same GPU");
    }
  }
}

TEST_F(RankDevices, DifferentDevicesAreRefusedOnAll) {
  for (const std::string& text : texts_of({on("cpu"), on("cuda")})) {
    EXPECT_PRED2(mentions, text, "rank 1 has another --device than rank 0");
  }
}

TEST_F(RankDevices, AutoSaysWhyNoRankTakesAGpu) {
  Options options = on("auto");
  options.matmul_dtype = "f32";
  for (const std::string& text : texts_of({options, options})) {
    EXPECT_PRED2(mentions, text, "a GPU multiplies bf16 as bf16");
  }
}

TEST(RanksMemory, IsThatOfTheSmallestGpu) {
  test::ThreadRanks ranks(3);
  const auto failures = ranks.run([](comm::Communicator& comm) {
    Gpu gpu;
    gpu.free_bytes = 900 - comm.rank();
    gpu.context_bytes = 30 + comm.rank() % 2;
    agree_on_memory(comm, gpu);
    EXPECT_EQ(gpu.free_bytes, 898);
    EXPECT_EQ(gpu.context_bytes, 31);
  });
  for (const auto& failure : failures) EXPECT_EQ(failure, nullptr);
}

}  // namespace
}  // namespace strata::engine
