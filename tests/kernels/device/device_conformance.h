// What every Device must do, as tests to instantiate for each implementation:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, testing::Values(&make_cpu_harness));
//
// Streams are held up with a Gate, so that no test depends on who is faster.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/device.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"

namespace strata::test {

// Holds up the stream that passes it, until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }
  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  void hold_up(Stream& stream) {
    stream.host_task([this] {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [&] { return open_; });
    });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// A device with its surroundings.
class DeviceHarness {
 public:
  static constexpr std::int64_t kDeviceBytes = 1 * kMiB;  // beside what the device itself holds
  static constexpr std::int64_t kHostBytes = 1 * kMiB;
  virtual ~DeviceHarness() = default;
  virtual Device& device() = 0;
};

using HarnessFactory = std::unique_ptr<DeviceHarness> (*)();

class DeviceConformance : public testing::TestWithParam<HarnessFactory> {
 protected:
  static constexpr std::int64_t kBytes = 64 * kKiB;

  Device& device() { return harness_->device(); }

  PinnedBuffer pinned(std::byte value) {
    PinnedBuffer buffer = device().allocate_pinned("test", kBytes);
    std::fill_n(buffer.data(), buffer.bytes(), value);
    return buffer;
  }
  // Beside what the device itself holds.
  std::int64_t held_bytes() { return device().device_budget().held_bytes() - held_at_start_; }
  static bool all(const PinnedBuffer& buffer, std::byte value) {
    return std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
                       [&](std::byte byte) { return byte == value; });
  }

  std::unique_ptr<DeviceHarness> harness_ = GetParam()();
  std::int64_t held_at_start_ = device().device_budget().held_bytes();
};

inline constexpr std::byte kOld{0x11};
inline constexpr std::byte kNew{0x22};

TEST_P(DeviceConformance, CopiesBetweenHostAndDeviceInOrder) {
  const PinnedBuffer source = pinned(kNew);
  const PinnedBuffer result = pinned(kOld);
  const DeviceBuffer first = device().allocate("first", kBytes);
  const DeviceBuffer second = device().allocate("second", kBytes);
  const auto stream = device().make_stream("work");
  stream->fill_zero(second.data(), kBytes);
  stream->copy(first.data(), source.data(), kBytes);
  stream->copy(second.data(), first.data(), kBytes / 2);
  stream->copy(result.data(), second.data(), kBytes);
  stream->synchronize();
  constexpr std::int64_t kHalf = kBytes / 2;
  EXPECT_TRUE(std::all_of(result.data(), result.data() + kHalf, [](auto b) { return b == kNew; }));
  EXPECT_TRUE(std::all_of(result.data() + kHalf, result.data() + kBytes,
                          [](auto b) { return b == std::byte{0}; }));
}

TEST_P(DeviceConformance, EnqueueingDoesNotWaitForTheWork) {
  Gate gate;
  const PinnedBuffer source = pinned(kNew);
  const PinnedBuffer result = pinned(kOld);
  const auto stream = device().make_stream("work");
  const auto event = device().make_event();
  gate.hold_up(*stream);
  stream->copy(result.data(), source.data(), kBytes);
  stream->record(*event);
  EXPECT_FALSE(event->done());
  EXPECT_TRUE(all(result, kOld));
  gate.open();
  event->synchronize();
  EXPECT_TRUE(all(result, kNew));
  EXPECT_TRUE(event->done());
}

TEST_P(DeviceConformance, AnEventOrdersTwoStreams) {
  Gate gate;
  const PinnedBuffer source = pinned(kNew);
  const PinnedBuffer result = pinned(kOld);
  const DeviceBuffer shared = device().allocate("shared", kBytes);
  const auto event = device().make_event();
  const auto producer = device().make_stream("producer");
  const auto consumer = device().make_stream("consumer");
  gate.hold_up(*producer);
  producer->copy(shared.data(), source.data(), kBytes);
  producer->record(*event);
  consumer->wait(*event, WaitFor::weights_ready);
  consumer->copy(result.data(), shared.data(), kBytes);
  gate.open();
  consumer->synchronize();
  EXPECT_TRUE(all(result, kNew));
}

TEST_P(DeviceConformance, HostTasksSeeTheWorkBeforeThemAndPrecedeTheWorkAfter) {
  const PinnedBuffer source = pinned(kNew);
  const PinnedBuffer between = pinned(kOld);
  const PinnedBuffer result = pinned(kOld);
  const auto stream = device().make_stream("work");
  bool saw_copy = false;
  stream->copy(between.data(), source.data(), kBytes);
  stream->host_task([&saw_copy, &between] {
    saw_copy = all(between, kNew);
    between.data()[0] = kOld;
  });
  stream->copy(result.data(), between.data(), kBytes);
  stream->synchronize();
  EXPECT_TRUE(saw_copy);
  EXPECT_EQ(result.data()[0], kOld);
  EXPECT_EQ(result.data()[1], kNew);
}

TEST_P(DeviceConformance, WaitingForAnEventThatWasNeverRecordedDoesNothing) {
  const auto event = device().make_event();
  const auto stream = device().make_stream("work");
  EXPECT_TRUE(event->done());
  event->synchronize();
  stream->wait(*event, WaitFor::slot_free);
  stream->synchronize();
}

TEST_P(DeviceConformance, AWaitIsForTheRecordBeforeItNotForLaterOnes) {
  Gate gate;
  const auto event = device().make_event();
  const auto producer = device().make_stream("producer");
  const auto consumer = device().make_stream("consumer");
  producer->record(*event);
  consumer->wait(*event, WaitFor::slot_free);
  gate.hold_up(*producer);
  producer->record(*event);
  consumer->synchronize();  // would hang if it waited for the second record
  EXPECT_FALSE(event->done());
  gate.open();
  event->synchronize();
  EXPECT_TRUE(event->done());
}

TEST_P(DeviceConformance, AWaitAfterARerecordIsForTheNewRecord) {
  Gate gate;
  const auto event = device().make_event();
  const auto producer = device().make_stream("producer");
  const auto consumer = device().make_stream("consumer");
  producer->record(*event);
  event->synchronize();
  gate.hold_up(*producer);
  producer->record(*event);
  consumer->wait(*event, WaitFor::slot_free);
  bool after_gate = false;
  consumer->host_task([&] { after_gate = gate.is_open(); });
  gate.open();
  consumer->synchronize();
  EXPECT_TRUE(after_gate);
}

TEST_P(DeviceConformance, ARecordOnAnotherStreamDoesNotReleaseWaitersOfTheFirst) {
  Gate gate;
  const auto event = device().make_event();
  const auto held_up = device().make_stream("held up");
  const auto free = device().make_stream("free");
  const auto consumer = device().make_stream("consumer");
  gate.hold_up(*held_up);
  held_up->record(*event);
  consumer->wait(*event, WaitFor::slot_free);
  bool after_gate = false;
  consumer->host_task([&] { after_gate = gate.is_open(); });
  free->record(*event);
  gate.open();
  consumer->synchronize();
  EXPECT_TRUE(after_gate);
  event->synchronize();
}

TEST_P(DeviceConformance, EventSynchronizeDoesNotWaitForLaterWork) {
  Gate gate;
  const auto event = device().make_event();
  const auto stream = device().make_stream("work");
  stream->record(*event);
  gate.hold_up(*stream);
  event->synchronize();  // would hang
  EXPECT_TRUE(event->done());
  gate.open();
}

TEST_P(DeviceConformance, MoreWorkThanAnyQueueHoldsIsRunInOrder) {
  const auto stream = device().make_stream("work");
  std::int64_t next = 0;
  bool in_order = true;
  for (std::int64_t i = 0; i < 5000; ++i) {
    stream->host_task([&next, &in_order, i] { in_order = in_order && next++ == i; });
  }
  stream->synchronize();
  EXPECT_EQ(next, 5000);
  EXPECT_TRUE(in_order);
}

TEST_P(DeviceConformance, DeviceBuffersAreAlignedDistinctAndCharged) {
  const DeviceBuffer first = device().allocate("first", 1);
  const DeviceBuffer second = device().allocate("second", Device::kAlignmentBytes + 1);
  EXPECT_EQ(first.bytes(), Device::kAlignmentBytes);
  EXPECT_EQ(second.bytes(), 2 * Device::kAlignmentBytes);
  for (const DeviceBuffer* buffer : {&first, &second}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % Device::kAlignmentBytes, 0u);
  }
  EXPECT_TRUE(first.data() + first.bytes() <= second.data() ||
              second.data() + second.bytes() <= first.data());
  EXPECT_EQ(held_bytes(), 3 * Device::kAlignmentBytes);
}

TEST_P(DeviceConformance, DeviceMemoryIsRefusedBeyondItsBudgetAndReusedWithinIt) {
  {
    const DeviceBuffer all = device().allocate("all", DeviceHarness::kDeviceBytes);
    const std::string text = error_text<OutOfBudget>([&] { (void)device().allocate("head", 1); });
    EXPECT_TRUE(mentions(text, "device memory") && mentions(text, "head")) << text;
  }
  EXPECT_EQ(held_bytes(), 0);
  DeviceBuffer again = device().allocate("again", DeviceHarness::kDeviceBytes);
  const DeviceBuffer moved = std::move(again);
  EXPECT_EQ(held_bytes(), DeviceHarness::kDeviceBytes);
}

TEST_P(DeviceConformance, PinnedMemoryIsWholePagesOfTheHostBudget) {
  const PinnedBuffer buffer = device().allocate_pinned("staging", kPageBytes + 1);
  EXPECT_EQ(buffer.bytes(), 2 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kPageBytes, 0u);
  EXPECT_EQ(device().host_budget().held_bytes(), 2 * kPageBytes);
  const std::string text = error_text<OutOfBudget>(
      [&] { (void)device().allocate_pinned("too much", DeviceHarness::kHostBytes); });
  EXPECT_TRUE(mentions(text, "host memory") && mentions(text, "too much")) << text;
}

TEST_P(DeviceConformance, AFailureIsRethrownByWhoeverWaits) {
  const auto event = device().make_event();
  const auto failing = device().make_stream("failing");
  const auto other = device().make_stream("other");
  failing->host_task([] { throw std::runtime_error("the disk is gone"); });
  failing->record(*event);
  EXPECT_EQ(error_text<std::runtime_error>([&] { event->synchronize(); }), "the disk is gone");
  EXPECT_THROW(failing->synchronize(), std::runtime_error);
  EXPECT_THROW(other->synchronize(), std::runtime_error) << "one failure ends the whole run";
}

TEST_P(DeviceConformance, AFailureReleasesStreamsThatWaitAndDropsTheirWork) {
  Gate gate;
  const PinnedBuffer source = pinned(kNew);
  const PinnedBuffer result = pinned(kOld);
  const auto first_done = device().make_event();
  const auto second_done = device().make_event();
  const auto first = device().make_stream("first");
  const auto second = device().make_stream("second");
  const auto third = device().make_stream("third");
  bool third_ran = false;
  gate.hold_up(*first);
  first->host_task([] { throw std::runtime_error("failed"); });
  first->record(*first_done);
  second->wait(*first_done, WaitFor::shard_on_device);
  second->record(*second_done);
  third->wait(*second_done, WaitFor::weights_ready);
  third->host_task([&third_ran] { third_ran = true; });
  gate.open();
  EXPECT_THROW(third->synchronize(), std::runtime_error);
  EXPECT_FALSE(third_ran) << "host tasks after a failure must not run";
  // What is enqueued after the failure completes too, for those who wait for it, and moves nothing.
  first->record(*first_done);
  second->wait(*first_done, WaitFor::shard_on_device);
  second->copy(result.data(), source.data(), kBytes);
  EXPECT_THROW(second->synchronize(), std::runtime_error);
  EXPECT_TRUE(all(result, kOld));
}

TEST_P(DeviceConformance, EnqueueingAllocatesNothing) {
  const PinnedBuffer source = pinned(kNew);
  const DeviceBuffer destination = device().allocate("destination", kBytes);
  const auto event = device().make_event();
  const auto stream = device().make_stream("work");
  const auto other = device().make_stream("other");
  std::int64_t runs = 0;
  const auto enqueue = [&] {
    stream->copy(destination.data(), source.data(), kBytes);
    stream->fill_zero(destination.data(), kBytes);
    stream->host_task([&runs] { ++runs; });
    stream->record(*event);
    other->wait(*event, WaitFor::weights_ready);
    other->synchronize();
  };
  enqueue();
  const std::int64_t before = allocation_count;
  for (int i = 0; i < 100; ++i) enqueue();
  EXPECT_EQ(allocation_count - before, 0);
  EXPECT_EQ(runs, 101);
}

}  // namespace strata::test
