// What streams leave of spans and tell of ops, with the times of the simulated device.
#include "kernels/device/cuda/stream_spans.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cuda_sim/faults.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/cuda_stream.h"
#include "tests/kernels/device/cuda/cuda_harness.h"

namespace strata {

namespace test {

struct ItsTracer {
  Tracer tracer{1 << 14, 1 << 14};
};
class TracedHarness final : ItsTracer, public CudaHarness {
 public:
  TracedHarness() : CudaHarness(-1, &tracer) {}
};

INSTANTIATE_TEST_SUITE_P(CudaWithSpans, DeviceConformance,
                         testing::Values([]() -> std::unique_ptr<DeviceHarness> {
                           return std::make_unique<TracedHarness>();
                         }));

}  // namespace test

namespace {

using test::CudaHarness;
using test::Gate;

class StreamSpansTest : public testing::Test {
 protected:
  StreamSpansTest() : tracer_(0, 1 << 14), harness_(-1, &tracer_) {}
  ~StreamSpansTest() override { cuda_sim::mend(); }

  CudaDevice& device() { return harness_.device(); }
  static void launch(Stream& stream, const char* name, const DeviceBuffer& buffer) {
    as_cuda(stream).launch(name, [&](cudaStream_t raw) {
      cuda::check(cudaMemsetAsync(buffer.data(), 0, 256, raw), "cudaMemsetAsync");
    });
  }
  const std::vector<Tracer::Span>& spans() {
    tracer_.take_recent(recent_);
    EXPECT_EQ(recent_.dropped, 0);
    return recent_.spans;
  }

  Tracer tracer_;
  Tracer::RecentSpans recent_;
  CudaHarness harness_;
};

TEST_F(StreamSpansTest, AllThatAStreamDoesIsOnItsRowInOrder) {
  const auto stream = device().make_stream("h2d");
  const DeviceBuffer buffer = device().allocate("buffer", 256);
  const PinnedBuffer host = device().allocate_pinned("host", 256);
  const std::int64_t begin_ns = Tracer::now_ns();
  stream->copy(buffer.data(), host.data(), 256);
  launch(*stream, "some op", buffer);
  stream->fill_zero(buffer.data(), 128);
  stream->host_task([] {});
  stream->synchronize();
  const std::int64_t end_ns = Tracer::now_ns();
  const std::vector<std::string> names = {"copy", "some op", "fill", "host task"};
  const std::vector<std::int64_t> bytes = {256, -1, 128, -1};
  ASSERT_EQ(spans().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tracer::Span& span = recent_.spans[i];
    EXPECT_EQ(span.name, names[i]);
    EXPECT_EQ(span.bytes, bytes[i]);
    EXPECT_EQ(tracer_.tracks().at(static_cast<std::size_t>(span.track)), "h2d");
    EXPECT_LE(span.begin_ns, span.end_ns);
    if (i > 0) EXPECT_LE(recent_.spans[i - 1].end_ns, span.begin_ns);
  }
  // The base of the clock is between two looks at it, which the machine may have kept apart.
  const std::int64_t around_ns = end_ns - begin_ns + 1'000'000'000;
  EXPECT_LT(std::abs(recent_.spans.front().begin_ns - begin_ns), around_ns);
  EXPECT_TRUE(spans().empty()) << "each is told once";
}

TEST_F(StreamSpansTest, AWaitLastsUntilWhatItWaitsFor) {
  const auto first = device().make_stream("first");
  const auto second = device().make_stream("second");
  const auto event = device().make_event();
  Gate gate;
  gate.hold_up(*first);
  first->record(*event);
  second->wait(*event, WaitFor::weights_ready);
  EXPECT_TRUE(spans().empty()) << "nothing has ended";
  gate.open();
  second->synchronize();
  first->synchronize();
  ASSERT_EQ(spans().size(), 2u);
  const bool in_order = std::string(recent_.spans[0].name) == "host task";
  const Tracer::Span& task = recent_.spans[in_order ? 0 : 1];
  const Tracer::Span& wait = recent_.spans[in_order ? 1 : 0];
  EXPECT_STREQ(wait.name, name_of(WaitFor::weights_ready));
  EXPECT_GE(wait.end_ns, task.end_ns);
}

// Far more than there are timing events, before anybody asks.
TEST_F(StreamSpansTest, NoneIsLostWhenEventsAreUsedAgain) {
  constexpr int kCopies = 3000;
  const auto stream = device().make_stream("work");
  const DeviceBuffer buffer = device().allocate("buffer", kCopies + 1);
  for (int i = 1; i <= kCopies; ++i) stream->fill_zero(buffer.data(), i);
  stream->synchronize();
  ASSERT_EQ(spans().size(), static_cast<std::size_t>(kCopies));
  for (int i = 1; i <= kCopies; ++i) {
    EXPECT_EQ(recent_.spans[static_cast<std::size_t>(i - 1)].bytes, i);
  }
}

class ToldOps final : public OpObserver {
 public:
  void op_ran(const char* name, double seconds) override {
    EXPECT_GE(seconds, 0);
    names.emplace_back(name);
  }
  std::vector<std::string> names;
};

TEST(OpsOfAGpu, AreToldInOrderOnceTheStreamIsSynchronized) {
  CudaHarness harness;
  ToldOps told;
  harness.device().observe_ops(&told);
  const auto stream = harness.device().make_stream("measurement");
  const DeviceBuffer buffer = harness.device().allocate("buffer", 256);
  for (const char* const name : {"first", "second"}) {
    stream->fill_zero(buffer.data(), 256);
    as_cuda(*stream).launch(name, [](cudaStream_t) {});
  }
  stream->synchronize();
  harness.device().observe_ops(nullptr);
  EXPECT_EQ(told.names, (std::vector<std::string>{"first", "second"}));
}

TEST_F(StreamSpansTest, ADeviceThatFailsEndsTheRunAndNobodyWaits) {
  const auto stream = device().make_stream("work");
  const DeviceBuffer buffer = device().allocate("buffer", 256);
  cuda_sim::fail_work(2, cudaErrorIllegalAddress);
  for (int i = 0; i < 2000; ++i) stream->fill_zero(buffer.data(), 256);
  EXPECT_THROW(stream->synchronize(), CudaError);
  EXPECT_LT(spans().size(), 2000u);
}

TEST(GpuClock, ABaseStaysWhileItIsUsedAndNewOnesFollow) {
  GpuClock clock(/*base_age_max_ns=*/0);
  GpuClock::Base& first = clock.take_base();
  const std::int64_t first_ns = first.ns;
  GpuClock::Base& second = clock.take_base();
  GpuClock::Base& third = clock.take_base();
  EXPECT_NE(&first, &second);
  EXPECT_NE(&second, &third);
  EXPECT_NE(&first, &third);
  EXPECT_EQ(first.ns, first_ns);
  EXPECT_LT(first_ns, second.ns);
  EXPECT_LT(second.ns, third.ns);
  clock.give_back(first);
  EXPECT_EQ(&clock.take_base(), &first);
  EXPECT_GT(first.ns, third.ns) << "set anew";
}

}  // namespace
}  // namespace strata
