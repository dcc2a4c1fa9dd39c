// The ranks of a run as threads of one process, with the host functions of a Communicator between
// them.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "offload/comm/communicator.h"

namespace strata::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int world_size) : world_size_(world_size), given_(world_size_) {}

  // Runs body(communicator) as each rank. A rank that throws fails the collectives that others are
  // in or come to, with a CommError. Returns what each threw, or null.
  std::vector<std::exception_ptr> run(const std::function<void(comm::Communicator&)>& body) {
    failed_ = false;
    std::vector<std::exception_ptr> failures(given_.size());
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
    waiting_ = 0;
    return failures;
  }

 private:
  class Rank final : public comm::Communicator {
   public:
    Rank(ThreadRanks& ranks, int rank) : ranks_(ranks) {
      topology_.rank = topology_.local_rank = rank;
      topology_.world_size = topology_.local_world_size = ranks.world_size_;
    }
    const comm::Topology& topology() const override { return topology_; }
    StagingBytes staging_bytes() const override { return {}; }
    DeviceBuffer attach(Device&) override { return {}; }
    void all_gather(Stream&, void*, std::int64_t) override { STRATA_CHECK(false); }
    void reduce_scatter(Stream&, float*, std::int64_t) override { STRATA_CHECK(false); }
    void barrier() override { ranks_.meet(); }
    void broadcast(std::span<std::byte> data, int root) override {
      give(data);
      const auto from = ranks_.given_[static_cast<std::size_t>(root)];
      STRATA_CHECK(from.size() == data.size());
      if (rank() != root) std::ranges::copy(from, data.begin());
      ranks_.meet();
    }
    void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
      STRATA_CHECK(all.size() == mine.size() * ranks_.given_.size());
      give(mine);
      auto to = all.begin();
      for (const auto& from : ranks_.given_) to = std::ranges::copy(from, to).out;
      ranks_.meet();
    }
    void abort(int) noexcept override { ranks_.fail(); }

   private:
    void give(std::span<const std::byte> bytes) {
      ranks_.given_[static_cast<std::size_t>(rank())] = bytes;
      ranks_.meet();
    }
    ThreadRanks& ranks_;
    comm::Topology topology_;
  };

  // Returns when all ranks have come.
  void meet() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++waiting_ == world_size_) {
      waiting_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != round || failed_; });
    if (round_ == round) throw CommError("another rank failed");
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    all_here_.notify_all();
  }

  const int world_size_;
  std::vector<std::span<const std::byte>> given_;  // of the collective under way, by rank
  std::mutex mutex_;
  std::condition_variable all_here_;
  int waiting_ = 0;
  int round_ = 0;
  bool failed_ = false;
};

}  // namespace strata::test
