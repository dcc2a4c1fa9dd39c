// Device memory: what may be read and written, by whom.
#include "cuda_sim/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda_sim/sim_device.h"

namespace strata::cuda_sim {
namespace {

using namespace strata::cuda;

constexpr std::int64_t kElements = 1000;  // 4,000 bytes: not whole granules

__global__ void read_one(const float* x, std::int64_t i) { (void)load(x + i); }
__global__ void write_one(float* x, std::int64_t i) { store(x + i, 1); }
__global__ void read_vector(const float* x) { (void)load_vector(x); }
__global__ void write_vector(float* x) { store_vector(x, {}); }
__global__ void dereference(float* x) { *x = 1; }
__global__ void add_one(int* x) { atomic_add(x, 1); }

constexpr LaunchSize kOneWarp{.threads = 32};

TEST(Memory, NewMemoryIsNaN) {
  const TestStream stream;
  const strata::cuda_sim::Memory<float> x(kElements);
  for (const float value : read(stream, x.data(), kElements)) EXPECT_TRUE(std::isnan(value));
}

TEST(Memory, IsReadAndWrittenByKernelsCopiesAndFills) {
  const TestStream stream;
  const strata::cuda_sim::Memory<float> x(kElements);
  EXPECT_CUDA(cudaMemsetAsync(x.data(), 0, kElements * sizeof(float), stream));
  EXPECT_CUDA(launch(stream, kOneWarp, write_one, x.data(), kElements - 1));
  const std::vector<float> values = read(stream, x.data(), kElements);
  EXPECT_EQ(values.front(), 0);
  EXPECT_EQ(values.back(), 1);
}

TEST(Memory, IntegersAreAddedByAllThreads) {
  const TestStream stream;
  const strata::cuda_sim::Memory<int> x(1);
  EXPECT_CUDA(cudaMemsetAsync(x.data(), 0, sizeof(int), stream));
  EXPECT_CUDA(launch(stream, {.blocks_x = 3, .threads = 64}, add_one, x.data()));
  EXPECT_EQ(read(stream, x.data(), 1)[0], 192);
}

TEST(Memory, IsGivenBackAndRunsOut) {
  std::size_t free_before = 0;
  std::size_t free_now = 0;
  std::size_t total = 0;
  EXPECT_CUDA(cudaMemGetInfo(&free_before, &total));
  EXPECT_LT(free_before, total) << "a context takes memory too";
  void* half = nullptr;
  void* more = nullptr;
  EXPECT_CUDA(cudaMalloc(&half, free_before / 2));
  EXPECT_CUDA(cudaMemGetInfo(&free_now, &total));
  EXPECT_EQ(free_now, free_before - free_before / 2);
  EXPECT_EQ(cudaMalloc(&more, free_now + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaFree(half));
  EXPECT_EQ(cudaFree(half), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  for (int i = 0; i < 3; ++i) {  // more than there are addresses
    EXPECT_CUDA(cudaMalloc(&half, free_before));
    EXPECT_CUDA(cudaFree(half));
  }
}

using MemoryDeathTest = ReportTest;

TEST_F(MemoryDeathTest, HostCodeCannotTouchIt) {
  const strata::cuda_sim::Memory<float> x(kElements);
  EXPECT_DEATH(x.data()[3] = 1, "host access to device memory at 0x.*\n.*in host code");
  EXPECT_DEATH(std::printf("%f", x.data()[3]), "host access to device memory");
  EXPECT_DEATH(run(kOneWarp, dereference, x.data()),
               "host access to device memory at .*\n.*kernel launched at .*memory_test.cc:");
}

TEST_F(MemoryDeathTest, AccessesStayWithinAnAllocation) {
  const strata::cuda_sim::Memory<float> x(kElements);
  run(kOneWarp, read_one, x.data(), kElements - 1);
  EXPECT_DEATH(run(kOneWarp, read_one, x.data(), kElements),
               "read of 4 bytes at .*: byte 4000 of an allocation of 4000 bytes");
  EXPECT_DEATH(run(kOneWarp, write_one, x.data(), kElements), "write of 4 bytes");
  EXPECT_DEATH(run(kOneWarp, read_one, x.data(), -1), "read of 4 bytes");
  const float host = 0;
  EXPECT_DEATH(run(kOneWarp, read_one, &host, 0), "not a device address");
}

TEST_F(MemoryDeathTest, AccessesAreAligned) {
  const strata::cuda_sim::Memory<float> x(kElements);
  run(kOneWarp, read_vector, x.data() + 4);
  EXPECT_DEATH(run(kOneWarp, read_vector, x.data() + 1), "misaligned read of 16 bytes");
  EXPECT_DEATH(run(kOneWarp, write_vector, x.data() + 2), "misaligned write of 16 bytes");
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(x.data()) + 2);
  EXPECT_DEATH(run(kOneWarp, read_one, odd, 0), "misaligned read of 4 bytes");
}

TEST_F(MemoryDeathTest, FreedMemoryIsGone) {
  void* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 4096));
  EXPECT_CUDA(cudaFree(x));
  EXPECT_DEATH(run(kOneWarp, read_one, static_cast<const float*>(x), 0), "read of 4 bytes");
}

// As the arena of a CudaDevice hands them out.
TEST_F(MemoryDeathTest, OnlyPiecesThatWereHandedOutMayBeAccessed) {
  const strata::cuda_sim::Memory<float> arena(kElements);
  const auto place_second = [&] {
    return static_cast<float*>(place_piece(arena.data(), kGranuleBytes, kGranuleBytes));
  };
  float* const second = place_second();
  run(kOneWarp, read_one, second, 63);
  EXPECT_DEATH(run(kOneWarp, read_one, arena.data(), 0), "not handed out");
  run(kOneWarp, write_one, second, 5);
  EXPECT_EQ(take_back_piece(arena.data(), second, kGranuleBytes), kGranuleBytes);
  EXPECT_DEATH(run(kOneWarp, read_one, second, 0), "not handed out");
  EXPECT_EQ(place_second(), second);
  const TestStream stream;
  EXPECT_TRUE(std::isnan(read(stream, second, 64)[5])) << "kept what its last owner wrote";
  EXPECT_DEATH(take_back_piece(arena.data(), second, 2 * kGranuleBytes), "were not handed out");
  EXPECT_DEATH(place_piece(arena.data(), kGranuleBytes, 4096), "not a piece of an allocation");
}

TEST_F(MemoryDeathTest, CopiesAndFillsStayWithinAnAllocation) {
  const TestStream stream;
  Pinned<float> host(kElements + 1);
  const strata::cuda_sim::Memory<float> x(kElements);
  EXPECT_DEATH(cudaMemcpyAsync(x.data(), host.data(), host.bytes(), cudaMemcpyDefault, stream),
               "write of 4004 bytes at .*, at .*: byte 4000 of an allocation of 4000 bytes");
  EXPECT_DEATH(cudaMemsetAsync(x.data(), 0, host.bytes(), stream), "write of 4004 bytes");
}

struct FreeOnceEnqueued {
  void* memory = nullptr;
  std::atomic<bool> enqueued{false};
};

void free_behind_the_copy() {
  const TestStream stream;
  Pinned<float> host(kElements);
  FreeOnceEnqueued state;
  EXPECT_CUDA(cudaMalloc(&state.memory, host.bytes()));
  EXPECT_CUDA(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        auto* const its = static_cast<FreeOnceEnqueued*>(data);
        its->enqueued.wait(false);
        strata::cuda_sim::free(its->memory);
      },
      &state));
  EXPECT_CUDA(cudaMemcpyAsync(state.memory, host.data(), host.bytes(), cudaMemcpyDefault, stream));
  state.enqueued = true;
  state.enqueued.notify_all();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

TEST_F(MemoryDeathTest, MemoryFreedBeforeACopyRunsIsReported) {
  EXPECT_DEATH(free_behind_the_copy(), "write of 4000 bytes at .*\n.*in copy");
}

TEST_F(MemoryDeathTest, HostMemoryOfCopiesIsRegistered) {
  const TestStream stream;
  const strata::cuda_sim::Memory<float> x(kElements);
  std::vector<float> host(kElements);
  const auto copy = [&](std::size_t bytes) {
    EXPECT_CUDA(cudaMemcpyAsync(x.data(), host.data(), bytes, cudaMemcpyDefault, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
  };
  EXPECT_DEATH(copy(4), "host memory at .* that is not registered");
  EXPECT_CUDA(cudaHostRegister(host.data(), 400, cudaHostRegisterDefault));
  copy(400);
  EXPECT_DEATH(copy(401), "that is not registered");
  EXPECT_CUDA(cudaHostUnregister(host.data()));
  EXPECT_DEATH(copy(4), "that is not registered");
}

}  // namespace
}  // namespace strata::cuda_sim
