// What every Storage must do, run over each implementation:
//   INSTANTIATE_TEST_SUITE_P(File, StorageConformance, testing::Values(StorageFactory{...}));
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "tests/io/pattern.h"

namespace strata::io {

inline constexpr std::int64_t kConformanceCapacityBytes = 8 * kMiB;

struct StorageFactory {
  std::string name;
  // Storage of kConformanceCapacityBytes that splits requests at no more than 64 KiB, if at all.
  std::function<std::unique_ptr<Storage>()> make;

  friend void PrintTo(const StorageFactory& factory, std::ostream* out) { *out << factory.name; }
};

class StorageConformance : public testing::TestWithParam<StorageFactory> {
 protected:
  AlignedBuffer buffer(std::int64_t bytes) { return AlignedBuffer(budget_, "test", bytes); }

  void write_and_wait(std::int64_t offset_bytes, AlignedSpan source) {
    IoGroup group;
    storage_->write(offset_bytes, source, group);
    group.wait();
  }
  void read_and_wait(std::int64_t offset_bytes, AlignedSpan destination) {
    IoGroup group;
    storage_->read(offset_bytes, destination, group);
    group.wait();
  }

  Budget budget_{"host memory", 256 * kMiB};
  std::unique_ptr<Storage> storage_ = GetParam().make();
};

TEST_P(StorageConformance, SaysWhatItIs) {
  EXPECT_EQ(storage_->capacity_bytes(), kConformanceCapacityBytes);
  EXPECT_GE(storage_->alignment_bytes(), 1);
  EXPECT_EQ(kPageBytes % storage_->alignment_bytes(), 0);
  EXPECT_FALSE(storage_->description().empty());
}

// Against a model in memory: extents of random place and length, each read back at once and all
// of it at the end.
TEST_P(StorageConformance, RandomExtentsReadBackWhatWasWritten) {
  constexpr int kWrites = 60;
  constexpr std::int64_t kPages = kConformanceCapacityBytes / kPageBytes;
  std::mt19937_64 random(7);
  AlignedBuffer model = buffer(kConformanceCapacityBytes);
  AlignedBuffer scratch = buffer(kMiB);
  write_and_wait(0, model.span());
  for (int generation = 1; generation <= kWrites; ++generation) {
    const auto pages = static_cast<std::int64_t>(1 + random() % 256);
    const auto first_page =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kPages - pages + 1));
    const std::int64_t offset = first_page * kPageBytes;
    const std::int64_t bytes = pages * kPageBytes;
    fill(model.span(offset, bytes), offset, generation);
    write_and_wait(offset, model.span(offset, bytes));
    read_and_wait(offset, scratch.span(0, bytes));
    ASSERT_EQ(first_difference(scratch.span(0, bytes), offset, generation), -1);
  }
  AlignedBuffer all = buffer(kConformanceCapacityBytes);
  read_and_wait(0, all.span());
  EXPECT_EQ(std::memcmp(all.data(), model.data(), kConformanceCapacityBytes), 0);
}

TEST_P(StorageConformance, RequestsOfTheSmallestSizeLandInTheirPlaces) {
  const std::int64_t unit = storage_->alignment_bytes();
  constexpr std::int64_t kRequests = 2000;  // no more than pages in the storage
  AlignedBuffer written = buffer(kRequests * unit);
  AlignedBuffer read = buffer(kRequests * unit);
  fill(written.span(), 0, 3);
  IoGroup group;
  for (std::int64_t i = kRequests - 1; i >= 0; --i) {
    storage_->write(i * unit, written.span(i * unit, unit), group);
  }
  group.wait();
  for (std::int64_t i = 0; i < kRequests; ++i) {
    storage_->read(i * unit, read.span(i * unit, unit), group);
  }
  group.wait();
  EXPECT_EQ(first_difference(read.span(0, kRequests * unit), 0, 3), -1);
}

// One transfer is many requests, of which each fills what slots there are, of both kinds at once.
TEST_P(StorageConformance, LongAndShortTransfersShareTheSlots) {
  constexpr std::int64_t kHalf = kConformanceCapacityBytes / 2;
  AlignedBuffer written = buffer(kConformanceCapacityBytes);
  AlignedBuffer read = buffer(kHalf);
  fill(written.span(), 0, 4);
  write_and_wait(kHalf, written.span(kHalf, kHalf));
  IoGroup reads;
  IoGroup writes;
  std::int64_t pages = 1;
  for (std::int64_t at = 0; at < kHalf; pages = pages % 97 + 13) {
    const std::int64_t bytes = std::min(pages * kPageBytes, kHalf - at);
    storage_->write(at, written.span(at, bytes), writes);
    storage_->read(kHalf + at, read.span(at, bytes), reads);
    at += bytes;
  }
  reads.wait();
  EXPECT_EQ(first_difference(read.span(), kHalf, 4), -1);
  writes.wait();
  read_and_wait(0, read.span());
  EXPECT_EQ(first_difference(read.span(), 0, 4), -1);
}

TEST_P(StorageConformance, FlushIsARequestWithoutBytes) {
  AlignedBuffer bytes = buffer(kMiB);
  fill(bytes.span(), 0, 6);
  write_and_wait(0, bytes.span());
  IoGroup group;
  storage_->flush(group);
  storage_->write(kMiB, bytes.span(), group);
  storage_->flush(group);
  group.wait();
  EXPECT_FALSE(group.pending());
  EXPECT_EQ(storage_->traffic().written_bytes, 2 * kMiB);
  EXPECT_EQ(storage_->traffic().read_bytes, 0);
  read_and_wait(0, bytes.span());
  EXPECT_EQ(first_difference(bytes.span(), 0, 6), -1);
}

// Registered memory is a hint: transfers within it, across its ends and outside it are the same.
TEST_P(StorageConformance, RegisteredMemoryHoldsTheSameBytes) {
  AlignedBuffer bytes = buffer(4 * kMiB);
  storage_->register_memory(bytes.span(kMiB, kMiB));
  storage_->register_memory(bytes.span(3 * kMiB + kPageBytes, kPageBytes));
  for (int generation = 1; generation <= 2; ++generation) {
    fill(bytes.span(), 0, generation);
    write_and_wait(0, bytes.span());
    fill(bytes.span(), 0, 7);
    read_and_wait(0, bytes.span());
    EXPECT_EQ(first_difference(bytes.span(), 0, generation), -1);
  }
  EXPECT_FALSE(storage_->description().empty());
  storage_.reset();  // before its memory
}

TEST_P(StorageConformance, OneRequestMayBeTheWholeStorage) {
  AlignedBuffer written = buffer(kConformanceCapacityBytes);
  AlignedBuffer read = buffer(kConformanceCapacityBytes);
  fill(written.span(), 0, 5);
  write_and_wait(0, written.span());
  read_and_wait(0, read.span());
  EXPECT_EQ(first_difference(read.span(), 0, 5), -1);
}

TEST_P(StorageConformance, NothingToTransferIsDoneAtOnce) {
  AlignedBuffer bytes = buffer(kPageBytes);
  IoGroup group;
  storage_->read(0, bytes.span(0, 0), group);
  storage_->write(kConformanceCapacityBytes, bytes.span(0, 0), group);
  EXPECT_FALSE(group.pending());
  group.wait();
  EXPECT_EQ(storage_->traffic().read_bytes, 0);
  EXPECT_EQ(storage_->traffic().written_bytes, 0);
}

TEST_P(StorageConformance, TrafficIsTheBytesOfCompletedRequests) {
  AlignedBuffer bytes = buffer(kMiB);
  write_and_wait(0, bytes.span());
  write_and_wait(kMiB, bytes.span(0, 3 * kPageBytes));
  read_and_wait(0, bytes.span(0, 5 * kPageBytes));
  EXPECT_EQ(storage_->traffic().written_bytes, kMiB + 3 * kPageBytes);
  EXPECT_EQ(storage_->traffic().read_bytes, 5 * kPageBytes);
}

// Two groups in flight at once: each wait() covers its own requests.
TEST_P(StorageConformance, GroupsAreWaitedForOneByOne) {
  AlignedBuffer first = buffer(kMiB);
  AlignedBuffer second = buffer(kMiB);
  fill(first.span(), 0, 1);
  fill(second.span(), kMiB, 2);
  IoGroup first_group;
  IoGroup second_group;
  for (std::int64_t at = 0; at < kMiB; at += 64 * kKiB) {
    storage_->write(at, first.span(at, 64 * kKiB), first_group);
    storage_->write(kMiB + at, second.span(at, 64 * kKiB), second_group);
  }
  second_group.wait();
  AlignedBuffer read = buffer(kMiB);
  storage_->read(kMiB, read.span(), second_group);
  second_group.wait();
  EXPECT_EQ(first_difference(read.span(), kMiB, 2), -1);
  first_group.wait();
  read_and_wait(0, read.span());
  EXPECT_EQ(first_difference(read.span(), 0, 1), -1);
}

// The fetch, gradient and optimizer threads of a run submit at once.
TEST_P(StorageConformance, SeveralThreadsSubmitAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 8;
  constexpr std::int64_t kShareBytes = kConformanceCapacityBytes / kThreads;
  constexpr std::int64_t kRequestBytes = 128 * kKiB;
  std::vector<AlignedBuffer> buffers;
  for (int i = 0; i < kThreads; ++i) buffers.push_back(buffer(kShareBytes));
  std::vector<std::int64_t> differences(kThreads, -2);
  const auto body = [&](int thread) {
    const AlignedSpan share = buffers[static_cast<std::size_t>(thread)].span();
    const std::int64_t base = thread * kShareBytes;
    std::int64_t difference = -1;
    for (int round = 0; round < kRounds; ++round) {
      IoGroup group;
      fill(share, base, round);
      for (std::int64_t at = 0; at < kShareBytes; at += kRequestBytes) {
        storage_->write(base + at, share.sub(at, kRequestBytes), group);
      }
      group.wait();
      std::memset(share.data(), 0, static_cast<std::size_t>(kShareBytes));
      for (std::int64_t at = 0; at < kShareBytes; at += kRequestBytes) {
        storage_->read(base + at, share.sub(at, kRequestBytes), group);
      }
      group.wait();
      difference = std::max(difference, first_difference(share, base, round));
    }
    differences[static_cast<std::size_t>(thread)] = difference;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<std::int64_t>(kThreads, -1));
}

// A submitter may end before its requests do.
TEST_P(StorageConformance, RequestsOutliveTheThreadThatSubmittedThem) {
  AlignedBuffer written = buffer(kMiB);
  AlignedBuffer read = buffer(kMiB);
  fill(written.span(), 0, 9);
  IoGroup group;
  std::thread([&] { storage_->write(0, written.span(), group); }).join();
  group.wait();
  std::thread([&] { storage_->read(0, read.span(), group); }).join();
  group.wait();
  EXPECT_EQ(first_difference(read.span(), 0, 9), -1);
}

TEST_P(StorageConformance, DestructionWaitsForWhatIsInFlight) {
  AlignedBuffer bytes = buffer(4 * kMiB);
  IoGroup group;
  storage_->write(0, bytes.span(), group);
  storage_.reset();
  EXPECT_FALSE(group.pending());
  group.wait();
}

using StorageConformanceDeathTest = StorageConformance;

TEST_P(StorageConformanceDeathTest, RefusesRequestsThatDoNotFit) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  AlignedBuffer bytes = buffer(2 * kPageBytes);
  IoGroup group;
  EXPECT_DEATH(storage_->read(-kPageBytes, bytes.span(), group), "at offset -4096");
  EXPECT_DEATH(storage_->read(kConformanceCapacityBytes - kPageBytes, bytes.span(), group),
               "8192 bytes at offset");
  EXPECT_DEATH(storage_->write(0, bytes.span(0, 100), group), "multiples");
  EXPECT_DEATH(storage_->write(100, bytes.span(0, kPageBytes), group), "multiples");
}

inline std::string storage_name(const testing::TestParamInfo<StorageFactory>& info) {
  return info.param.name;
}

}  // namespace strata::io
