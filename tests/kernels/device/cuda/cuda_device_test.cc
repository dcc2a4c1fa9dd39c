#include "kernels/device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "cuda_sim/device.h"
#include "cuda_sim/faults.h"
#include "cuda_sim/sim_device.h"
#include "kernels/device/cuda/architectures.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/cuda_stream.h"
#include "kernels/device/cuda/gpu.h"
#include "tests/kernels/device/cuda/cuda_harness.h"

namespace strata {
namespace test {
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::Values(&make_cuda_harness));
}  // namespace test

namespace {

using test::CudaHarness;
using test::DeviceHarness;
using test::error_text;
using test::Gate;
using test::mentions;
using test::options_for;

// Ends with a device that works, whatever the test planted.
class CudaFaults : public testing::Test {
 protected:
  ~CudaFaults() override { cuda_sim::mend(); }
};

TEST(CudaDevice, DescribesItselfForPeople) {
  CudaHarness harness;
  EXPECT_EQ(harness.device().description(), "cuda, simulated GPU");
}

TEST(CudaDevice, ContextAndLibrariesAreChargedFirst) {
  CudaHarness harness;
  const auto entries = harness.device().device_budget().entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].tag, "CUDA context and libraries");
  EXPECT_GT(entries[0].bytes, 0);
  const DeviceBuffer rest = harness.device().allocate("rest", DeviceHarness::kDeviceBytes);
  EXPECT_THROW((void)harness.device().allocate("more", 1), OutOfBudget);
}

TEST(CudaDevice, ABudgetBelowContextAndLibrariesIsRefused) {
  Budget host("host memory", kMiB);
  FailureLatch failure;
  const CudaDeviceOptions options = options_for(-1);
  const std::string text =
      error_text<OutOfBudget>([&] { const CudaDevice device(options, host, failure); });
  EXPECT_TRUE(mentions(text, "device memory") && mentions(text, "CUDA context")) << text;
}

TEST(CudaDevice, TakesItsMemoryAtOnceAndGivesItBack) {
  const std::int64_t before = cuda::open_gpu(0).free_bytes;
  {
    CudaHarness harness;
    EXPECT_EQ(cuda::open_gpu(0).free_bytes, before - DeviceHarness::kDeviceBytes);
    const DeviceBuffer piece = harness.device().allocate("piece", DeviceHarness::kDeviceBytes);
    EXPECT_EQ(cuda::open_gpu(0).free_bytes, before - DeviceHarness::kDeviceBytes);
  }
  EXPECT_EQ(cuda::open_gpu(0).free_bytes, before);
}

TEST(CudaDevice, WhatLibrariesTakeIsTheContexts) {
  Gpu gpu = cuda::open_gpu(0);
  const Gpu opened = gpu;
  {
    const cuda_sim::Memory<std::byte> handle(kMiB);
    cuda::charge_growth(gpu);
  }
  EXPECT_EQ(gpu.context_bytes, opened.context_bytes + kMiB);
  EXPECT_EQ(gpu.free_bytes, opened.free_bytes - kMiB);
  cuda::charge_growth(gpu);
  EXPECT_EQ(gpu.context_bytes, opened.context_bytes + kMiB) << "what others give back is not ours";
}

TEST(CudaDevice, OfNoMoreThanItsContextHasNoArena) {
  Budget host("host memory", kMiB);
  FailureLatch failure;
  CudaDevice device(options_for(0), host, failure);
  EXPECT_THROW((void)device.allocate("any", 1), OutOfBudget);
}

TEST(CudaDevice, MoreThanTheGpuHasIsRefusedWithWhatToDo) {
  Budget host("host memory", kMiB);
  FailureLatch failure;
  CudaDeviceOptions options = options_for(0);
  options.device_memory_bytes = options.gpu.memory_bytes + kMiB;
  const std::string text =
      error_text<CudaError>([&] { const CudaDevice device(options, host, failure); });
  EXPECT_TRUE(mentions(text, "device memory") && mentions(text, "--device-memory") &&
              mentions(text, "simulated GPU"))
      << text;
}

TEST(CudaDevice, OpStateMayHoldDeviceMemoryUntilTheEnd) {
  CudaHarness harness;
  harness.device().attach(
      std::make_shared<DeviceBuffer>(harness.device().allocate("scratch", kMiB / 2)));
}

TEST(Gpu, IsTheRanksOwnAmongAllOrAmongThoseThatItWasGiven) {
  EXPECT_EQ(cuda::choose_gpu(1, 0), 0);
  EXPECT_EQ(cuda::choose_gpu(1, 3), 0);
  EXPECT_EQ(cuda::choose_gpu(4, 3), 3);
  EXPECT_EQ(cuda::choose_gpu(2, 3), 1);
}

TEST(Gpu, ThatTheBuildHasNoKernelsForIsRefused) {
  cuda::require_kernels_for("new", 120);
  cuda::require_kernels_for("oldest", cuda::oldest_capability());
  const std::string text =
      error_text<ConfigError>([] { cuda::require_kernels_for("Tesla T4", 75); });
  EXPECT_TRUE(mentions(text, "Tesla T4") && mentions(text, "7.5") && mentions(text, "8.0")) << text;
}

TEST_F(CudaFaults, NoGpuIsSaidPlainly) {
  cuda_sim::set_devices(0);
  const std::string text = error_text<ConfigError>([] { (void)cuda::visible_gpus(); });
  cuda_sim::set_devices(1);
  EXPECT_TRUE(mentions(text, "no NVIDIA GPU is visible")) << text;
}

TEST_F(CudaFaults, AnOldDriverIsSaidByName) {
  cuda_sim::fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  const std::string text = error_text<CudaError>([] { (void)cuda::visible_gpus(); });
  EXPECT_TRUE(mentions(text, "cudaErrorInsufficientDriver")) << text;
}

TEST_F(CudaFaults, MemoryThatCannotBePinnedIsHostMemory) {
  CudaHarness harness;
  cuda_sim::fail_call("cudaHostRegister", 1, cudaErrorMemoryAllocation);
  const std::string text = error_text<CudaError>(
      [&] { (void)harness.device().allocate_pinned("weight staging", 8192); });
  EXPECT_TRUE(mentions(text, "host pinned memory") && mentions(text, "weight staging") &&
              mentions(text, "8192 bytes") && mentions(text, "--host-memory"))
      << text;
  EXPECT_EQ(harness.host_budget().held_bytes(), 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  const PinnedBuffer buffer = harness.device().allocate_pinned("weight staging", 8192);
  EXPECT_EQ(buffer.bytes(), 8192);
}

TEST(CudaDevice, PinnedMemoryIsExactlyThePagesAskedForWhileItLives) {
  CudaHarness harness;
  PinnedBuffer buffer = harness.device().allocate_pinned("staging", 3 * kPageBytes);
  std::byte* const last_page = buffer.data() + 2 * kPageBytes;
  EXPECT_EQ(cudaHostRegister(last_page, kPageBytes, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  (void)cudaGetLastError();
  PinnedBuffer other = harness.device().allocate_pinned("other", kPageBytes);
  buffer = std::move(other);
  EXPECT_EQ(harness.host_budget().held_bytes(), kPageBytes);
  EXPECT_EQ(cudaHostUnregister(buffer.data()), cudaSuccess) << "moved along with the memory";
  EXPECT_EQ(cudaHostRegister(buffer.data(), kPageBytes, cudaHostRegisterDefault), cudaSuccess);
}

__global__ void write_one(float* x, std::int64_t i) { cuda::store(x + i, 1); }

// Two halves are the whole budget: what keeps them apart costs nothing.
using CudaDeviceDeathTest = cuda_sim::ReportTest;
TEST_F(CudaDeviceDeathTest, ABufferEndsBeforeItsNeighbour) {
  CudaHarness harness;
  constexpr std::int64_t kHalfBytes = DeviceHarness::kDeviceBytes / 2;
  constexpr std::int64_t kElements = kHalfBytes / std::int64_t{sizeof(float)};
  const DeviceBuffer halves[] = {harness.device().allocate("first", kHalfBytes),
                                 harness.device().allocate("second", kHalfBytes)};
  const PinnedBuffer host = harness.device().allocate_pinned("host", kHalfBytes + kPageBytes);
  const auto stream = harness.device().make_stream("copy");
  const auto write = [&](int half, std::int64_t element) {
    cuda_sim::run({.threads = 32}, write_one, reinterpret_cast<float*>(halves[half].data()),
                  element);
  };
  write(0, kElements - 1);
  write(1, 0);
  EXPECT_DEATH(write(0, kElements), "write of 4 bytes at .*: byte 524288 of a buffer of 524288 ");
  EXPECT_DEATH(write(1, -1), "write of 4 bytes");
  EXPECT_DEATH(stream->copy(halves[0].data(), host.data(), kHalfBytes + 4),
               "write of 524292 bytes at .*: byte 524288 of a buffer of 524288 bytes");
  EXPECT_DEATH(stream->copy(host.data(), halves[0].data(), kHalfBytes + 4), "read of 524292");
}

// What fails is the call, the device goes on: the run has failed all the same.
TEST_F(CudaFaults, ACallThatFailsFailsTheRun) {
  CudaHarness harness;
  const auto stream = harness.device().make_stream("work");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
  cuda_sim::fail_call("cudaMemsetAsync", 1, cudaErrorLaunchOutOfResources);
  stream->fill_zero(buffer.data(), 4096);
  EXPECT_TRUE(harness.failure().failed());
  const std::string text = error_text<CudaError>([&] { stream->synchronize(); });
  EXPECT_TRUE(mentions(text, "cudaMemsetAsync") && mentions(text, "cudaErrorLaunchOutOfResources"))
      << text;
}

// As after an illegal access of a kernel: every call fails, and nobody is left waiting.
TEST_F(CudaFaults, ADeviceThatFailsEndsTheRunAndLeavesNobodyWaiting) {
  CudaHarness harness;
  Gate gate;
  const auto event = harness.device().make_event();
  const auto failing = harness.device().make_stream("failing");
  const auto other = harness.device().make_stream("other");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
  gate.hold_up(*failing);
  failing->fill_zero(buffer.data(), 4096);
  bool ran = false;
  failing->host_task([&ran] { ran = true; });
  failing->record(*event);
  other->wait(*event, WaitFor::weights_ready);
  cuda_sim::fail_work(1, cudaErrorIllegalAddress);
  gate.open();
  EXPECT_TRUE(mentions(error_text<CudaError>([&] { event->synchronize(); }), "IllegalAddress"));
  EXPECT_TRUE(event->done());
  EXPECT_THROW(other->synchronize(), CudaError);
  EXPECT_THROW(failing->synchronize(), CudaError);
  EXPECT_FALSE(ran) << "host tasks of a failed device must not run";
}

// Its slots stay in use, since a failed device runs no host task: whoever waits for one is told.
TEST_F(CudaFaults, ADeviceThatFailsReleasesWhoEnqueuesHostTasks) {
  CudaHarness harness;
  const auto stream = harness.device().make_stream("work");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
  cuda_sim::fail_work(1, cudaErrorIllegalAddress);
  stream->fill_zero(buffer.data(), 4096);
  std::atomic<int> runs{0};
  for (int i = 0; i < 1000; ++i) stream->host_task([&runs] { ++runs; });
  EXPECT_THROW(stream->synchronize(), CudaError);
  EXPECT_EQ(runs, 0);
}

TEST(CudaStream, EnqueuesWithinTheRunAndNotAfterIt) {
  CudaHarness harness;
  const auto stream = harness.device().make_stream("compute");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
  int calls = 0;
  as_cuda(*stream).launch("work", [&](cudaStream_t raw) {
    ++calls;
    cuda::check(cudaMemsetAsync(buffer.data(), 0, 4096, raw), "cudaMemsetAsync");
  });
  stream->synchronize();
  as_cuda(*stream).launch("work", [&](cudaStream_t) { throw std::runtime_error("failed"); });
  as_cuda(*stream).launch("work", [&](cudaStream_t) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
}

TEST(CudaStream, LeavesOutTheWaitsOfItsSeam) {
  CudaHarness harness(static_cast<int>(WaitFor::slot_free));
  Gate gate;
  const auto event = harness.device().make_event();
  const auto producer = harness.device().make_stream("producer");
  const auto consumer = harness.device().make_stream("consumer");
  gate.hold_up(*producer);
  producer->record(*event);
  consumer->wait(*event, WaitFor::slot_free);
  consumer->synchronize();  // would hang if it waited
  consumer->wait(*event, WaitFor::weights_ready);
  bool after_gate = false;
  consumer->host_task([&] { after_gate = gate.is_open(); });
  gate.open();
  consumer->synchronize();
  EXPECT_TRUE(after_gate);
}

}  // namespace
}  // namespace strata
