#include "kernels/device/cpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "kernels/base/annotate.h"
#include "tests/kernels/device/device_conformance.h"

namespace strata {
namespace {

using test::DeviceHarness;
using test::Gate;

class CpuHarness final : public DeviceHarness {
 public:
  explicit CpuHarness(int threads = 2, int skip_wait_kind = -1, Tracer* tracer = nullptr)
      : workers_(threads),
        device_({kDeviceBytes, skip_wait_kind}, host_budget_, workers_, failure_, tracer) {}
  CpuDevice& device() override { return device_; }

 private:
  Budget host_budget_{"host memory", kHostBytes};
  WorkerSet workers_;
  FailureLatch failure_;
  CpuDevice device_;
};

std::unique_ptr<DeviceHarness> make_cpu_harness() { return std::make_unique<CpuHarness>(); }

}  // namespace

namespace test {
INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, testing::Values(&make_cpu_harness));
}  // namespace test

namespace {

TEST(CpuDevice, DescribesItselfForPeople) {
  CpuHarness one(1);
  EXPECT_EQ(one.device().description(), "cpu, 1 thread");
  CpuHarness four(4);
  EXPECT_EQ(four.device().description(), "cpu, 4 threads");
}

TEST(CpuDevice, OpStateMayHoldDeviceMemoryUntilTheEnd) {
  CpuHarness harness;
  harness.device().attach(
      std::make_shared<DeviceBuffer>(harness.device().allocate("scratch", kMiB / 2)));
  EXPECT_NE(harness.device().op_state(), nullptr);
}

TEST(CpuDevice, WithoutDeviceMemoryRefusesToAllocate) {
  Budget host_budget("host memory", kMiB);
  WorkerSet workers(1);
  FailureLatch failure;
  CpuDevice device({0}, host_budget, workers, failure, nullptr);
  EXPECT_THROW((void)device.allocate("any", 1), OutOfBudget);
  EXPECT_EQ(device.allocate("nothing", 0).bytes(), 0);
}

TEST(CpuStream, LaunchesRunOnTheStreamWithTheDevice) {
  CpuHarness harness;
  const auto stream = harness.device().make_stream("compute");
  std::atomic<std::int64_t> sum{0};
  std::thread::id where;
  as_cpu(*stream).launch("sum", [&](CpuDevice& device) {
    where = std::this_thread::get_id();
    device.workers().parallel_for(100, [&](std::int64_t tile, int) { sum += tile; });
  });
  stream->synchronize();
  EXPECT_EQ(sum, 99 * 100 / 2);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CpuStream, TracesWorkAndNoWaitThatIsOver) {
  Tracer tracer(64);
  const std::string path = testing::TempDir() + "strata_stream_trace.json";
  {
    CpuHarness harness(1, -1, &tracer);
    Gate gate;
    const auto event = harness.device().make_event();
    const auto producer = harness.device().make_stream("producer");
    const auto consumer = harness.device().make_stream("consumer");
    const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
    gate.hold_up(*producer);
    producer->record(*event);
    consumer->fill_zero(buffer.data(), 4096);
    consumer->wait(*event, WaitFor::gradients_ready);
    as_cpu(*consumer).launch("op", [](CpuDevice&) {});
    gate.open();
    consumer->synchronize();
    consumer->wait(*event, WaitFor::slot_free);  // is over: nothing to show
    consumer->synchronize();
  }
  tracer.write(path, 0);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  for (const char* name : {"\"producer\"", "\"consumer\"", "\"fill\"", "\"op\"", "\"host task\""}) {
    EXPECT_TRUE(test::mentions(text.str(), name)) << name;
  }
  EXPECT_FALSE(test::mentions(text.str(), "wait: slot free"));
}

TEST(CpuStream, AFailureDropsTheCopiesThatAreEnqueued) {
  CpuHarness harness(1);
  Gate gate;
  const PinnedBuffer source = harness.device().allocate_pinned("source", 4096);
  const PinnedBuffer result = harness.device().allocate_pinned("result", 4096);
  source.data()[0] = std::byte{1};
  const auto stream = harness.device().make_stream("work");
  gate.hold_up(*stream);
  stream->host_task([] { throw std::runtime_error("failed"); });
  stream->copy(result.data(), source.data(), 4096);
  gate.open();
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  EXPECT_EQ(result.data()[0], std::byte{0});
}

TEST(CpuStream, CopyingOntoItselfIsAProgrammerError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CpuHarness harness(1);
  const auto stream = harness.device().make_stream("work");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 4096);
  EXPECT_DEATH(stream->copy(buffer.data() + 100, buffer.data(), 101), "copy of 101 bytes");
  stream->copy(buffer.data() + 100, buffer.data(), 100);
  stream->synchronize();
}

// Everything that may be waited for, each left out in turn.
class WaitSeam : public testing::TestWithParam<int> {};

TEST_P(WaitSeam, LeavesOutItsKindAndNoOther) {
  const auto left_out = static_cast<WaitFor>(GetParam());
  const auto kept = static_cast<WaitFor>((GetParam() + 1) % kWaitForKinds);
  CpuHarness harness(1, GetParam());
  Gate gate;
  const auto event = harness.device().make_event();
  const auto producer = harness.device().make_stream("producer");
  const auto consumer = harness.device().make_stream("consumer");
  gate.hold_up(*producer);
  producer->record(*event);
  consumer->wait(*event, left_out);
  consumer->synchronize();  // would hang if it waited
  consumer->wait(*event, kept);
  bool after_gate = false;
  consumer->host_task([&] { after_gate = gate.is_open(); });
  gate.open();
  consumer->synchronize();
  EXPECT_TRUE(after_gate);
}

// A producer fills a device buffer that a consumer reads. It writes once everything is enqueued,
// and is told so in the middle of its work, without any order that ThreadSanitizer could take for
// the missing wait (a lock of its queue would be one).
void produce_and_consume(int skip_wait_kind, WaitFor reason) {
  CpuHarness harness(1, skip_wait_kind);
  std::atomic<bool> started{false};
  std::atomic<bool> enqueued{false};
  const PinnedBuffer result = harness.device().allocate_pinned("result", 4096);
  const DeviceBuffer shared = harness.device().allocate("shared", 4096);
  const auto event = harness.device().make_event();
  const auto producer = harness.device().make_stream("producer");
  const auto consumer = harness.device().make_stream("consumer");
  as_cpu(*producer).launch("jit", [&](CpuDevice&) {
    started.store(true, std::memory_order_relaxed);
    while (!enqueued.load(std::memory_order_relaxed)) std::this_thread::yield();
    // As an op with a matmul inside would: only the annotation is visible.
    annotate_write(shared.data(), 4096);
  });
  producer->record(*event);
  consumer->wait(*event, reason);
  consumer->copy(result.data(), shared.data(), 4096);
  while (!started.load(std::memory_order_relaxed)) std::this_thread::yield();
  enqueued.store(true, std::memory_order_relaxed);
  consumer->synchronize();
  producer->synchronize();
}

TEST_P(WaitSeam, ThreadSanitizerSeesTheMissingWait) {
#if defined(__SANITIZE_THREAD__)
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto reason = static_cast<WaitFor>(GetParam());
  constexpr int kRaceReported = 66;  // ThreadSanitizer's default exitcode
  EXPECT_EXIT(
      {
        produce_and_consume(GetParam(), reason);
        std::exit(0);
      },
      testing::ExitedWithCode(kRaceReported), "data race");
  EXPECT_EXIT(
      {
        produce_and_consume(-1, reason);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
#else
  produce_and_consume(-1, static_cast<WaitFor>(GetParam()));
  GTEST_SKIP() << "needs a build with STRATA_SANITIZE=thread";
#endif
}

INSTANTIATE_TEST_SUITE_P(Kinds, WaitSeam, testing::Range(0, kWaitForKinds),
                         [](const testing::TestParamInfo<int>& kind) {
                           std::string name = name_of(static_cast<WaitFor>(kind.param));
                           std::erase_if(name, [](char c) { return c == ':'; });
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace strata
