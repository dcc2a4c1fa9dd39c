// What every Communicator must do, as tests over ConformanceRank::current: each executable that
// includes this file makes one for its implementation before it runs them. Under a launcher all
// ranks run the same tests in the same order.
//
// Every rank can compute every rank's data, so each checks its result against the formula.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/communicator.h"

namespace strata::comm {

// A rank with a device of its own.
class ConformanceRank {
 public:
  inline static ConformanceRank* current = nullptr;
  using MakeDevice = std::function<std::unique_ptr<Device>(Budget& host_budget, WorkerSet&)>;

  ConformanceRank(std::unique_ptr<Communicator> communicator, const MakeDevice& make_device)
      : comm(std::move(communicator)),
        host_budget("host memory", 64 * kMiB),
        workers(2),
        device(make_device(host_budget, workers)),
        held_before_attach_bytes(device->device_budget().held_bytes()),
        staging(comm->attach(*device)),
        stream(device->make_stream("collectives")) {}

  std::unique_ptr<Communicator> comm;
  Budget host_budget;
  WorkerSet workers;
  std::unique_ptr<Device> device;
  std::int64_t held_before_attach_bytes;
  DeviceBuffer staging;
  std::unique_ptr<Stream> stream;
};

inline ConformanceRank::MakeDevice on_cpu(FailureLatch& failure) {
  return [&failure](Budget& host_budget, WorkerSet& workers) {
    return std::make_unique<CpuDevice>(CpuDeviceOptions{.device_memory_bytes = 64 * kMiB},
                                       host_budget, workers, failure, nullptr);
  };
}

class CommunicatorConformance : public testing::Test {
 protected:
  Communicator& comm() { return *ConformanceRank::current->comm; }
  Device& device() { return *ConformanceRank::current->device; }
  Stream& stream() { return *ConformanceRank::current->stream; }
  int ranks() { return comm().world_size(); }

  // Magnitudes from 2^-12 to 2^12, so that the order of additions shows in the bits.
  static float value(int rank, std::int64_t i) {
    const auto hash = (static_cast<std::uint32_t>(i) * 2654435761u) ^
                      (static_cast<std::uint32_t>(rank + 1) * 0x9E3779B9u);
    const float mantissa = static_cast<float>(hash >> 8) / 16777216.0f - 0.5f;
    return std::ldexp(mantissa, static_cast<int>(hash % 25) - 12);
  }

  // `elements` f32 on the device and their image in pinned memory.
  struct Vector {
    Vector(Device& device, std::int64_t elements)
        : on_device(device.allocate("test", elements * 4)),
          on_host(device.allocate_pinned("test", elements * 4)),
          elements(elements) {}
    float* host() const { return on_host.as<float>(); }
    void upload(Stream& stream) { stream.copy(on_device.data(), on_host.data(), elements * 4); }
    void download(Stream& stream) { stream.copy(on_host.data(), on_device.data(), elements * 4); }
    DeviceBuffer on_device;
    PinnedBuffer on_host;
    std::int64_t elements;
  };

  void check_all_gather(std::int64_t shard_elements) {
    Vector full(device(), ranks() * shard_elements);
    std::fill_n(full.host(), full.elements, -1.0f);
    for (std::int64_t i = 0; i < shard_elements; ++i) {
      full.host()[comm().rank() * shard_elements + i] = value(comm().rank(), i);
    }
    full.upload(stream());
    comm().all_gather(stream(), full.on_device.data(), shard_elements * 4);
    full.download(stream());
    stream().synchronize();
    for (std::int64_t i = 0; i < full.elements; ++i) {
      ASSERT_EQ(full.host()[i], value(static_cast<int>(i / shard_elements), i % shard_elements))
          << "element " << i;
    }
  }

  void check_reduce_scatter(std::int64_t shard_elements) {
    Vector full(device(), ranks() * shard_elements);
    for (std::int64_t i = 0; i < full.elements; ++i) full.host()[i] = value(comm().rank(), i);
    full.upload(stream());
    comm().reduce_scatter(stream(), reinterpret_cast<float*>(full.on_device.data()),
                          shard_elements);
    full.download(stream());
    stream().synchronize();
    for (std::int64_t i = 0; i < shard_elements; ++i) {
      const std::int64_t at = comm().rank() * shard_elements + i;
      float expected = value(0, at);
      for (int rank = 1; rank < ranks(); ++rank) expected += value(rank, at);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(full.host()[at]),
                std::bit_cast<std::uint32_t>(expected))
          << "element " << at;
    }
  }
};

TEST_F(CommunicatorConformance, RanksAreNumberedAndCounted) {
  const Topology& topology = comm().topology();
  ASSERT_GE(topology.rank, 0);
  ASSERT_LT(topology.rank, topology.world_size);
  // The tests run on one host.
  EXPECT_EQ(topology.hosts, 1);
  EXPECT_EQ(topology.local_rank, topology.rank);
  EXPECT_EQ(topology.local_world_size, topology.world_size);
}

// Around the piece of 1,000 bytes (250 elements) that the tests use, and longer than the window.
TEST_F(CommunicatorConformance, AllGatherFillsEveryPart) {
  for (const std::int64_t elements : {1, 249, 250, 251, 500, 501, 4096, 50001}) {
    check_all_gather(elements);
  }
}

TEST_F(CommunicatorConformance, ReduceScatterAddsInRankOrder) {
  for (const std::int64_t elements : {1, 249, 250, 251, 500, 501, 4096, 50001}) {
    check_reduce_scatter(elements);
  }
}

TEST_F(CommunicatorConformance, TestDataTellsTheOrderOfAdditions) {
  int different = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    different +=
        (value(0, i) + value(1, i)) + value(2, i) != (value(2, i) + value(1, i)) + value(0, i);
  }
  EXPECT_GT(different, 100);
}

// Odd ranks reduce first and gather late, even ranks the other way round, and between the two, on
// the host, all meet.
TEST_F(CommunicatorConformance, KindsMayComeInDifferentOrdersOnDifferentRanks) {
  constexpr std::int64_t kElements = 1000;
  const auto other = device().make_stream("gathers");
  Vector gathered(device(), ranks() * kElements);
  Vector reduced(device(), ranks() * kElements);
  std::fill_n(gathered.host(), gathered.elements, static_cast<float>(comm().rank()));
  std::fill_n(reduced.host(), reduced.elements, 1.0f);
  gathered.upload(*other);
  reduced.upload(stream());
  const auto gather = [&] { comm().all_gather(*other, gathered.on_device.data(), kElements * 4); };
  const auto reduce = [&] {
    comm().reduce_scatter(stream(), reinterpret_cast<float*>(reduced.on_device.data()), kElements);
  };
  const bool odd = comm().rank() % 2 == 1;
  odd ? reduce() : gather();
  (odd ? *other : stream()).host_task([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  comm().barrier();
  odd ? gather() : reduce();
  gathered.download(*other);
  reduced.download(stream());
  other->synchronize();
  stream().synchronize();
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(gathered.host()[rank * kElements], static_cast<float>(rank));
  }
  EXPECT_EQ(reduced.host()[comm().rank() * kElements], static_cast<float>(ranks()));
}

TEST_F(CommunicatorConformance, BroadcastReachesEveryRankFromEveryRoot) {
  for (int root = 0; root < ranks(); ++root) {
    for (const std::size_t bytes : {0u, 1u, 1000u, 12345u}) {
      std::vector<std::byte> data(bytes, std::byte{0xFF});
      const auto expected = [&](std::size_t i) { return static_cast<std::byte>(i * 7 + root); };
      if (comm().rank() == root) {
        for (std::size_t i = 0; i < bytes; ++i) data[i] = expected(i);
      }
      comm().broadcast(data, root);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], expected(i));
    }
  }
}

TEST_F(CommunicatorConformance, AllGatherHostKeepsRankOrder) {
  const double mine = 0.5 + comm().rank();
  std::vector<double> all(static_cast<std::size_t>(ranks()));
  comm().all_gather_host(std::as_bytes(std::span(&mine, 1)),
                         std::as_writable_bytes(std::span(all)));
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)], 0.5 + rank);
  }
}

// Nobody passes before the last one arrives: the last rank is late, and its clock is the others'.
TEST_F(CommunicatorConformance, BarrierWaitsForTheLastRank) {
  using Clock = std::chrono::steady_clock;  // one host, one clock
  comm().barrier();
  if (comm().rank() == ranks() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Clock::rep arrived = Clock::now().time_since_epoch().count();
  comm().barrier();
  const Clock::rep passed = Clock::now().time_since_epoch().count();
  comm().broadcast(std::as_writable_bytes(std::span(&arrived, 1)), ranks() - 1);
  EXPECT_GE(passed, arrived);
}

TEST_F(CommunicatorConformance, AttachTakesTheStagingItStates) {
  const auto staging = comm().staging_bytes();
  EXPECT_EQ(device().device_budget().held_bytes(),
            ConformanceRank::current->held_before_attach_bytes + staging.device);
  EXPECT_EQ(staging.host, 0);
}

}  // namespace strata::comm
