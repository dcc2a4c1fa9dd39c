// How far this rank is in collectives that a library of its device carries out (NCCL): who enqueues
// them writes it, and the communication thread watches it, which otherwise knows nothing of them.
// The numbers of those begun travel with the heartbeat, so that every rank can tell who is missing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace strata::comm {

struct DeviceCollectives {
  static constexpr std::array<const char*, 2> kKinds = {"all-gather", "reduce-scatter"};
  using Counts = std::array<std::uint64_t, kKinds.size()>;

  // Of a kind. All ranks enqueue the same ones in the same order.
  struct Kind {
    std::atomic<std::uint64_t> begun{0};  // their stream has come to them
    std::atomic<std::uint64_t> complete{0};
  };
  std::array<Kind, kKinds.size()> kinds;

  // What the library met; the first counts.
  void fail(std::string text) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(text);
  }
  std::optional<std::string> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> error_;
};

}  // namespace strata::comm
