// The ranks of a run as threads of one process, and a Communicator between them.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/communicator.h"

namespace strata::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int world_size) : world_size_(world_size) {
    for (Meetings& meetings : meetings_)
      meetings.given.resize(static_cast<std::size_t>(world_size));
  }

  // Runs body(communicator) as each rank. A rank that throws fails the collectives that others are
  // in or come to, with a CommError. Returns what each threw, or null.
  std::vector<std::exception_ptr> run(const std::function<void(comm::Communicator&)>& body) {
    failed_ = false;
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(world_size_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_size_; ++rank) {
      threads.emplace_back([&, rank] {
        Rank communicator(*this, rank);
        try {
          body(communicator);
        } catch (...) {
          failures[static_cast<std::size_t>(rank)] = std::current_exception();
          fail();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Meetings& meetings : meetings_) meetings.waiting = 0;
    return failures;
  }

 private:
  // Of one kind of collective: the kinds make progress at the same time.
  enum class Kind : std::uint8_t { host, all_gather, reduce_scatter };
  struct Meetings {
    std::vector<std::span<const std::byte>> given;  // in the collective under way, by rank
    int waiting = 0;
    int round = 0;
  };

  class Rank final : public comm::Communicator {
   public:
    Rank(ThreadRanks& ranks, int rank) : ranks_(ranks) {
      topology_.rank = topology_.local_rank = rank;
      topology_.world_size = topology_.local_world_size = ranks.world_size_;
    }
    const comm::Topology& topology() const override { return topology_; }
    StagingBytes staging_bytes() const override { return {}; }
    DeviceBuffer attach(Device&) override { return {}; }
    void all_gather(Stream& stream, void* full, std::int64_t shard_bytes) override {
      as_cpu(stream).launch("all_gather", [this, full, shard_bytes](CpuDevice&) {
        gather_now(static_cast<std::byte*>(full), static_cast<std::size_t>(shard_bytes));
      });
    }
    void reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) override {
      as_cpu(stream).launch("reduce_scatter", [this, full, shard_elements](CpuDevice&) {
        reduce_now(full, static_cast<std::size_t>(shard_elements));
      });
    }
    void barrier() override { ranks_.meet(Kind::host); }
    void broadcast(std::span<std::byte> data, int root) override {
      const auto& from = give(Kind::host, data)[static_cast<std::size_t>(root)];
      STRATA_CHECK(from.size() == data.size());
      if (rank() != root) std::ranges::copy(from, data.begin());
      ranks_.meet(Kind::host);
    }
    void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
      STRATA_CHECK(all.size() == mine.size() * static_cast<std::size_t>(world_size()));
      auto to = all.begin();
      for (const auto& from : give(Kind::host, mine)) to = std::ranges::copy(from, to).out;
      ranks_.meet(Kind::host);
    }
    void abort(int) noexcept override { ranks_.fail(); }

   private:
    using Given = std::vector<std::span<const std::byte>>;

    const Given& give(Kind kind, std::span<const std::byte> bytes) {
      Given& given = ranks_.of(kind).given;
      given[static_cast<std::size_t>(rank())] = bytes;
      ranks_.meet(kind);
      return given;
    }
    void gather_now(std::byte* full, std::size_t shard_bytes) {
      const std::span<const std::byte> mine(full + shard_bytes * index(), shard_bytes);
      const Given& given = give(Kind::all_gather, mine);
      for (std::size_t peer = 0; peer < given.size(); ++peer) {
        if (peer != index()) std::ranges::copy(given[peer], full + peer * shard_bytes);
      }
      ranks_.meet(Kind::all_gather);
    }
    // In rank order, as the contract wants.
    void reduce_now(float* full, std::size_t shard_elements) {
      const std::size_t first = shard_elements * index();
      const std::size_t elements = shard_elements * static_cast<std::size_t>(world_size());
      std::vector<float> sum(shard_elements, 0);
      for (const auto& given :
           give(Kind::reduce_scatter, std::as_bytes(std::span(full, elements)))) {
        const float* const term = reinterpret_cast<const float*>(given.data()) + first;
        for (std::size_t i = 0; i < shard_elements; ++i) sum[i] += term[i];
      }
      ranks_.meet(Kind::reduce_scatter);
      std::ranges::copy(sum, full + first);
    }
    std::size_t index() const { return static_cast<std::size_t>(rank()); }

    ThreadRanks& ranks_;
    comm::Topology topology_;
  };

  Meetings& of(Kind kind) { return meetings_[static_cast<std::size_t>(kind)]; }

  // Returns when all ranks have come.
  void meet(Kind kind) {
    std::unique_lock lock(mutex_);
    Meetings& meetings = of(kind);
    const int round = meetings.round;
    if (++meetings.waiting == world_size_) {
      meetings.waiting = 0;
      ++meetings.round;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return meetings.round != round || failed_; });
    if (meetings.round == round) throw CommError("another rank failed");
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    all_here_.notify_all();
  }

  const int world_size_;
  std::array<Meetings, 3> meetings_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  bool failed_ = false;
};

}  // namespace strata::test
