// Threads of a block: barriers, shuffles and shared memory, and what is wrong with their use.
#include "cuda_sim/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda_sim/sim_device.h"
#include "kernels/device/cuda/async_copy.h"
#include "kernels/device/cuda/fragment.h"

namespace strata::cuda_sim {
namespace {

using namespace strata::cuda;

__global__ void write_indices(int* out) {
  const std::int64_t block = block_x() + 3 * (block_y() + 2 * block_z());
  store(out + block * block_threads() + thread_index(),
        1000 * static_cast<int>(block) + 32 * warp_index() + lane_index());
}

TEST(Block, EveryThreadOfEveryBlockRunsOnce) {
  constexpr int kBlocks = 3 * 2 * 2;
  const TestStream stream;
  const Memory<int> out(kBlocks * 64);
  EXPECT_CUDA(launch(stream, {.blocks_x = 3, .blocks_y = 2, .blocks_z = 2, .threads = 64},
                     write_indices, out.data()));
  const std::vector<int> values = read(stream, out.data(), kBlocks * 64);
  for (int i = 0; i < kBlocks * 64; ++i) EXPECT_EQ(values[i], 1000 * (i / 64) + i % 64) << i;
}

// Halves the number of values that are left until one is.
__global__ void sum_in_shared_memory(const float* x, float* sums, int threads) {
  SharedMemory memory;
  const SharedArray<float> values = memory.take<float>(threads);
  const int i = thread_index();
  values[i] = load(x + block_x() * threads + i);
  for (int half = threads / 2; half > 0; half /= 2) {
    sync_threads();
    if (i < half) values[i] += values[i + half];
  }
  if (i == 0) store(sums + block_x(), values[0]);
}

TEST(Block, BarriersOrderSharedMemory) {
  constexpr int kBlocks = 5;
  constexpr int kThreads = 256;
  const TestStream stream;
  Pinned<float> x(kBlocks * kThreads);
  std::iota(x.data(), x.data() + kBlocks * kThreads, 1.0f);
  const Memory<float> x_there(kBlocks * kThreads);
  const Memory<float> sums(kBlocks);
  EXPECT_CUDA(cudaMemcpyAsync(x_there.data(), x.data(), x.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(launch(stream,
                     {.blocks_x = kBlocks, .threads = kThreads, .shared_bytes = 4 * kThreads},
                     sum_in_shared_memory, x_there.data(), sums.data(), kThreads));
  const std::vector<float> got = read(stream, sums.data(), kBlocks);
  for (int b = 0; b < kBlocks; ++b) {
    EXPECT_EQ(got[b], kThreads * (b * kThreads) + kThreads * (kThreads + 1) / 2) << b;
  }
}

// Of each vector of eight rows of a tile: where among 128 bytes they lie, as bits.
template <typename T, int kCols>
__global__ void mark_places(int* places) {
  SharedMemory memory;
  const SharedTile<T, kCols> tile(memory, kWarpThreads);
  const int group = thread_index();
  if (group >= kWarpThreads / 8) return;
  for (int index = 0; index < tile.kVectors; ++index) {
    int bits = 0;
    for (int row = 8 * group; row < 8 * (group + 1); ++row) {
      const auto offset = reinterpret_cast<const char*>(&tile.vector(row, index)) -
                          reinterpret_cast<const char*>(&tile.vector(0, 0));
      bits |= 1 << offset / kVectorBytes % 8;
    }
    store(places + group * tile.kVectors + index, bits);
  }
}

// Which is how matrices are loaded from it, and shared memory serves 128 bytes at a time.
TEST(Block, EightRowsOfASharedTileAreInDifferentBanks) {
  const auto expect_no_conflict = []<typename T, int kCols>() {
    using Tile = SharedTile<T, kCols>;
    const TestStream stream;
    const Memory<int> places(4 * Tile::kVectors);
    EXPECT_CUDA(launch(stream, {.threads = 32, .shared_bytes = Tile::bytes(kWarpThreads)},
                       mark_places<T, kCols>, places.data()));
    for (const int bits : read(stream, places.data(), 4 * Tile::kVectors)) EXPECT_EQ(bits, 0xFF);
  };
  expect_no_conflict.operator()<bf16, 32>();
  expect_no_conflict.operator()<bf16, 64>();
  expect_no_conflict.operator()<bf16, 128>();
  expect_no_conflict.operator()<bf16, 256>();
  expect_no_conflict.operator()<float, 32>();
  expect_no_conflict.operator()<float, 256>();
}

__global__ void exchange(int* out, double* sums) {
  const int lane = lane_index();
  const int warp = warp_index();
  store(out + thread_index(), shuffle(100 * warp + lane, lane + 1));
  double sum = lane;
  for (int step = 16; step > 0; step /= 2) sum += shuffle_xor(sum, step);
  sync_warp();
  store(sums + thread_index(), sum + warp);
}

TEST(Block, ShufflesExchangeWithinAWarp) {
  constexpr int kThreads = 96;
  const TestStream stream;
  const Memory<int> out(kThreads);
  const Memory<double> sums(kThreads);
  EXPECT_CUDA(launch(stream, {.threads = kThreads}, exchange, out.data(), sums.data()));
  const std::vector<int> values = read(stream, out.data(), kThreads);
  const std::vector<double> got = read(stream, sums.data(), kThreads);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(values[i], 100 * (i / 32) + (i + 1) % 32);
    EXPECT_EQ(got[i], 31 * 16 + i / 32);
  }
}

// Each warp meets as often as its number before the block meets.
__global__ void uneven_warps(unsigned* out) {
  SharedMemory memory;
  const SharedArray<unsigned> sums = memory.take<unsigned>(block_threads() / kWarpThreads);
  unsigned sum = 1;
  for (int i = 0; i < warp_index(); ++i) sum += shuffle_xor(sum, 1);
  if (lane_index() == 0) sums[warp_index()] = sum;
  sync_threads();
  store(out + thread_index(), sums[(warp_index() + 1) % (block_threads() / kWarpThreads)]);
}

TEST(Block, WarpsMayMeetUnequallyOften) {
  const TestStream stream;
  const Memory<unsigned> out(1024);
  EXPECT_CUDA(launch(stream, {.threads = 1024, .shared_bytes = 128}, uneven_warps, out.data()));
  const std::vector<unsigned> values = read(stream, out.data(), 1024);
  for (int i = 0; i < 1024; ++i) EXPECT_EQ(values[i], 1u << (i / 32 + 1) % 32) << i;
}

// Thread i reads what thread i + offset wrote, without a barrier.
__global__ void read_without_barrier(float* out, int offset) {
  SharedMemory memory;
  const SharedArray<float> values = memory.take<float>(block_threads());
  const int threads = block_threads();
  values[thread_index()] = 1;
  const int other = (thread_index() + offset + threads) % threads;
  store(out + block_x() * threads + thread_index(), values[other]);
}

TEST(Block, AMissingBarrierReadsGarbageInOneOrderOrTheOther) {
  const TestStream stream;
  const Memory<float> out(2 * 64);
  for (const int offset : {1, -1}) {
    EXPECT_CUDA(launch(stream, {.blocks_x = 2, .threads = 64, .shared_bytes = 256},
                       read_without_barrier, out.data(), offset));
    const std::vector<float> values = read(stream, out.data(), 2 * 64);
    const auto garbage = std::ranges::count_if(values, [](float x) { return std::isnan(x); });
    EXPECT_GE(garbage, 63);
  }
}

enum class Wait { none, after_reading, before_reading };
__global__ void copy_through_shared_memory(float* out, const float* x, Wait wait) {
  SharedMemory memory;
  const auto values = memory.take<Vector<float>>(block_threads());
  copy_async(values[thread_index()], x + 4 * thread_index());
  if (wait == Wait::before_reading) async_wait();
  const Vector<float> value = values[thread_index()];
  if (wait == Wait::after_reading) async_wait();
  store_vector(out + 4 * thread_index(), value);
}

// What `wait` leaves of a copied row of ones.
std::vector<float> copied(Wait wait) {
  constexpr int kElements = 4 * 32;
  const TestStream stream;
  Pinned<float> ones(kElements, 1);
  const Memory<float> x(kElements);
  const Memory<float> out(kElements);
  EXPECT_CUDA(cudaMemcpyAsync(x.data(), ones.data(), ones.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(launch(stream, {.threads = 32, .shared_bytes = 32 * kVectorBytes},
                     copy_through_shared_memory, out.data(), x.data(), wait));
  return read(stream, out.data(), kElements);
}

TEST(Block, AnAsynchronousCopyArrivesWhenItsThreadWaits) {
  for (const float value : copied(Wait::before_reading)) EXPECT_EQ(value, 1);
  for (const float value : copied(Wait::after_reading)) EXPECT_TRUE(std::isnan(value));
}

__global__ void half_a_block_meets() {
  if (warp_index() == 0) sync_threads();
}
__global__ void some_lanes_shuffle() {
  if (lane_index() < 16) shuffle(1, 0);
}
__global__ void lanes_meet_elsewhere() {
  if (lane_index() < 16) {
    sync_warp();
  } else {
    sync_warp();
  }
}
__global__ void a_warp_waits_for_itself_and_the_block() {
  if (lane_index() == 3) {
    sync_threads();
  } else {
    sync_warp();
  }
}
__global__ void beyond_shared_array(int i) {
  SharedMemory memory;
  memory.take<int>(4)[i] = 1;
}
__global__ void more_shared_memory_than_stated() {
  SharedMemory memory;
  memory.take<int>(3);
  memory.take<int>(1);
}
__global__ void deep_recursion(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  if (depth > 0) deep_recursion(depth - 1);
  frame[1] = frame[0];
}

using BlockDeathTest = ReportTest;

TEST_F(BlockDeathTest, ABarrierThatSomeMissIsReported) {
  EXPECT_DEATH(run({.threads = 64}, half_a_block_meets),
               "not reached by all.*\n.*threads 0 to 31 wait at sync_threads at "
               ".*block_test.cc:[0-9]*\n.*threads 32 to 63 ended");
  EXPECT_DEATH(run({.threads = 64}, some_lanes_shuffle),
               "threads 0 to 15 wait at shuffle at .*\n.*threads 16 to 31 ended");
  EXPECT_DEATH(run({.threads = 64}, lanes_meet_elsewhere),
               "not reached by all: sync_warp at .* was reached by others, and sync_warp at");
  EXPECT_DEATH(run({.threads = 32}, a_warp_waits_for_itself_and_the_block),
               "thread.* 3 to 3 wait at sync_threads");
}

TEST_F(BlockDeathTest, SharedMemoryIsWhatTheLaunchStates) {
  run({.threads = 32, .shared_bytes = 16}, beyond_shared_array, 3);
  EXPECT_DEATH(run({.threads = 32, .shared_bytes = 16}, beyond_shared_array, 4),
               "element 4 of a shared array of 4\n.*kernel launched at .*block_test.cc:[0-9]*, "
               "block \\(0, 0, 0\\), thread 0");
  EXPECT_DEATH(run({.threads = 32, .shared_bytes = 16}, beyond_shared_array, -1), "element -1");
  run({.threads = 32, .shared_bytes = 20}, more_shared_memory_than_stated);
  EXPECT_DEATH(run({.threads = 32, .shared_bytes = 19}, more_shared_memory_than_stated),
               "4 bytes of shared memory after 16, of the 19");
}

TEST_F(BlockDeathTest, ACopyThatNobodyWaitsForIsReported) {
  EXPECT_DEATH((void)copied(Wait::none),
               "a thread ends before its async_wait.*\n.*kernel launched");
}

TEST_F(BlockDeathTest, AFullStackIsReported) {
  run({.threads = 32}, deep_recursion, 10);
  EXPECT_DEATH(run({.threads = 32}, deep_recursion, 1000), "stack of a simulated thread is full");
}

TEST_F(BlockDeathTest, BlocksAreWholeWarps) {
  EXPECT_DEATH(run({.threads = 33}, half_a_block_meets), "33 threads: blocks are whole warps");
}

TEST(Block, SizesThatTheHardwareRefusesAreRefused) {
  const TestStream stream;
  const auto refusal = [&](const LaunchSize& size) {
    const cudaError_t error = launch(stream, size, half_a_block_meets);
    EXPECT_EQ(cudaGetLastError(), error);
    return error;
  };
  EXPECT_EQ(refusal({.threads = 1056}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refusal({.blocks_x = 0, .threads = 32}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refusal({.blocks_y = 65536, .threads = 32}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refusal({.blocks_z = 65536, .threads = 32}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refusal({.blocks_x = std::int64_t{1} << 31, .threads = 32}),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(refusal({.threads = 32, .shared_bytes = 99 * 1024 + 1}), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace strata::cuda_sim
