// Streams, events, host memory, errors and planted faults: as CUDA's.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_sim/faults.h"
#include "cuda_sim/sim_device.h"

namespace strata::cuda_sim {
namespace {

using cuda::launch;
using cuda::LaunchSize;
using cuda::store;

constexpr LaunchSize kOneWarp{.threads = 32};

__global__ void write_number(int* x, int number) { store(x, number); }

// Holds up a stream until it is opened.
class Gate {
 public:
  void hold_up(cudaStream_t stream) {
    EXPECT_CUDA(cudaLaunchHostFunc(
        stream, [](void* gate) { static_cast<Gate*>(gate)->open_.wait(false); }, this));
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

TEST(Stream, WorkIsEnqueuedAndRunsInOrder) {
  Gate gate;
  const TestStream stream;
  const Memory<int> x(1);
  Pinned<int> first(1, -1);
  Pinned<int> second(1, -1);
  gate.hold_up(stream);
  EXPECT_CUDA(launch(stream, kOneWarp, write_number, x.data(), 1));
  EXPECT_CUDA(cudaMemcpyAsync(first.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream));
  EXPECT_CUDA(launch(stream, kOneWarp, write_number, x.data(), 2));
  EXPECT_CUDA(cudaMemcpyAsync(second.data(), x.data(), 4, cudaMemcpyDefault, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "as hardware's";
  EXPECT_EQ(first.values()[0], -1);
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaStreamQuery(stream));
  EXPECT_EQ(first.values()[0], 1);
  EXPECT_EQ(second.values()[0], 2);
}

TEST(Stream, CopiesOfTheWrongDirectionAreRefused) {
  const TestStream stream;
  const Memory<int> x(1);
  Pinned<int> host(1);
  EXPECT_EQ(cudaMemcpyAsync(x.data(), host.data(), 4, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(Event, IsOneThatWasRecordedBeforeTheWait) {
  Gate gate;
  const TestStream producer;
  const TestStream consumer;
  const TestEvent event;
  EXPECT_CUDA(cudaEventQuery(event)) << "never recorded";
  EXPECT_CUDA(cudaStreamWaitEvent(consumer, event, 0));
  EXPECT_CUDA(cudaEventRecord(event, producer));
  EXPECT_CUDA(cudaStreamWaitEvent(consumer, event, 0));
  EXPECT_CUDA(cudaEventSynchronize(event));
  gate.hold_up(producer);
  EXPECT_CUDA(cudaEventRecord(event, producer));
  EXPECT_CUDA(cudaStreamSynchronize(consumer)) << "would wait for the second record";
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  gate.open();
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_CUDA(cudaEventQuery(event));
}

TEST(Event, OrdersStreams) {
  Gate gate;
  const TestStream producer;
  const TestStream consumer;
  const TestEvent event;
  const Memory<int> x(1);
  gate.hold_up(producer);
  EXPECT_CUDA(launch(producer, kOneWarp, write_number, x.data(), 7));
  EXPECT_CUDA(cudaEventRecord(event, producer));
  EXPECT_CUDA(cudaStreamWaitEvent(consumer, event, 0));
  Pinned<int> result(1);
  EXPECT_CUDA(cudaMemcpyAsync(result.data(), x.data(), 4, cudaMemcpyDefault, consumer));
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(consumer));
  EXPECT_EQ(result.values()[0], 7);
}

TEST(Event, ARecordOnAnotherStreamIsAnotherPoint) {
  Gate gate;
  const TestStream held_up;
  const TestStream free_stream;
  const TestStream consumer;
  const TestEvent event;
  gate.hold_up(held_up);
  EXPECT_CUDA(cudaEventRecord(event, held_up));
  EXPECT_CUDA(cudaStreamWaitEvent(consumer, event, 0));
  EXPECT_CUDA(cudaEventRecord(event, free_stream));
  EXPECT_CUDA(cudaEventSynchronize(event)) << "the free stream's";
  EXPECT_EQ(cudaStreamQuery(consumer), cudaErrorNotReady);
  (void)cudaGetLastError();
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(consumer));
}

TEST(Event, MeasuresTimeWhenAsked) {
  const TestStream stream;
  const TestEvent begin;
  const TestEvent end;
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
  EXPECT_CUDA(cudaEventRecord(begin, stream));
  EXPECT_CUDA(cudaEventRecord(end, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 0);
  cudaEvent_t without = nullptr;
  EXPECT_CUDA(cudaEventCreateWithFlags(&without, cudaEventDisableTiming));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, without, end), cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
  EXPECT_CUDA(cudaEventDestroy(without));
}

TEST(Event, MayBeDestroyedWhileStreamsWaitForIt) {
  Gate gate;
  const TestStream consumer;
  {
    const TestStream producer;
    const TestEvent event;
    gate.hold_up(producer);
    EXPECT_CUDA(cudaEventRecord(event, producer));
    EXPECT_CUDA(cudaStreamWaitEvent(consumer, event, 0));
    gate.open();
  }
  EXPECT_CUDA(cudaStreamSynchronize(consumer));
}

TEST(HostMemory, IsRegisteredOnceAndUnregisteredOnce) {
  std::vector<char> memory(8192);
  EXPECT_CUDA(cudaHostRegister(memory.data(), 4096, cudaHostRegisterDefault));
  for (const std::size_t at : {0, 4095}) {
    EXPECT_EQ(cudaHostRegister(memory.data() + at, 4096, cudaHostRegisterDefault),
              cudaErrorHostMemoryAlreadyRegistered);
    EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryAlreadyRegistered);
  }
  EXPECT_CUDA(cudaHostRegister(memory.data() + 4096, 4096, cudaHostRegisterDefault));
  EXPECT_CUDA(cudaHostUnregister(memory.data()));
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
  EXPECT_CUDA(cudaHostUnregister(memory.data() + 4096));
}

using HostMemoryDeathTest = ReportTest;
TEST_F(HostMemoryDeathTest, IsUnregisteredBeforeItIsUnmapped) {
  EXPECT_DEATH(
      {
        void* const memory =
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_CUDA(cudaHostRegister(memory, 4096, cudaHostRegisterDefault));
        ::munmap(memory, 4096);
        (void)cudaHostUnregister(memory);
      },
      "unregistered after they were unmapped");
}

using ErrorsDeathTest = ReportTest;
TEST_F(ErrorsDeathTest, HostFunctionsCallNothing) {
  EXPECT_DEATH(
      {
        const TestStream stream;
        (void)cudaLaunchHostFunc(
            stream, [](void*) { (void)cudaSetDevice(0); }, nullptr);
        (void)cudaStreamSynchronize(stream);
      },
      "cudaSetDevice is called by a host function");
}

TEST_F(ErrorsDeathTest, AnErrorThatNobodyLookedAtIsReported) {
  EXPECT_DEATH(
      {
        const Memory<int> x(1);
        const TestStream stream;
        (void)launch(stream, {.threads = 2048}, write_number, x.data(), 1);
      },
      "nobody looked at cudaErrorInvalidConfiguration of cudaLaunchKernelExC");
  EXPECT_DEATH(
      {
        const TestStream stream;
        (void)launch(stream, {.threads = 2048}, write_number, nullptr, 1);
        (void)cudaStreamSynchronize(stream);
      },
      "nobody looked at cudaErrorInvalidConfiguration of cudaLaunchKernelExC, and "
      "cudaStreamSynchronize is called");
}

class Faults : public testing::Test {
 protected:
  void TearDown() override { mend(); }
};

TEST_F(Faults, TheNthCallOfAFunctionFails) {
  void* memory = nullptr;
  fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  fail_call("cudaLaunchKernelExC", 1, cudaErrorLaunchOutOfResources);
  EXPECT_CUDA(cudaMalloc(&memory, 256));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_EQ(cudaMalloc(&memory, 256), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaGetLastError());
  const Memory<int> x(1);
  const TestStream stream;
  EXPECT_EQ(launch(stream, kOneWarp, write_number, x.data(), 1), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchOutOfResources);
  EXPECT_CUDA(launch(stream, kOneWarp, write_number, x.data(), 2));
  EXPECT_EQ(read(stream, x.data(), 1)[0], 2);
}

TEST_F(Faults, FailedWorkFailsEveryLaterCall) {
  Gate gate;
  const Memory<int> x(1);
  const TestStream stream;
  const TestStream other;
  const TestEvent event;
  Pinned<int> result(1, -1);
  bool ran = false;
  gate.hold_up(stream);
  EXPECT_CUDA(launch(stream, kOneWarp, write_number, x.data(), 1));
  EXPECT_CUDA(launch(stream, kOneWarp, write_number, x.data(), 2));
  EXPECT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA(cudaStreamWaitEvent(other, event, 0));
  EXPECT_CUDA(cudaMemcpyAsync(result.data(), x.data(), 4, cudaMemcpyDefault, other));
  EXPECT_CUDA(cudaLaunchHostFunc(
      other, [](void* flag) { *static_cast<bool*>(flag) = true; }, &ran));
  fail_work(2, cudaErrorIllegalAddress);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorIllegalAddress) << "and nobody hangs";
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "cannot be cleared";
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorIllegalAddress);
  EXPECT_EQ(result.values()[0], -1);
  EXPECT_FALSE(ran);
  mend();
  EXPECT_EQ(read(stream, x.data(), 1)[0], 1) << "the first kernel ran";
}

TEST_F(Faults, AFailedDeviceTakesBackWhatItGave) {
  std::vector<int> host(1);
  const TestStream stream;
  fail_work(1, cudaErrorLaunchFailure);
  {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, 4));
    EXPECT_CUDA(cudaHostRegister(host.data(), 4, cudaHostRegisterDefault));
    EXPECT_CUDA(cudaMemsetAsync(memory, 0, 4, stream));
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaFree(memory), cudaErrorLaunchFailure);
  }
  mend();
  EXPECT_CUDA(cudaHostRegister(host.data(), 4, cudaHostRegisterDefault));
  EXPECT_CUDA(cudaHostUnregister(host.data()));
}

TEST(Errors, HaveNVIDIAsNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

}  // namespace
}  // namespace strata::cuda_sim
