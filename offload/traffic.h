// Traffic: the bytes that move over each link, by what they are. The plan predicts it, the ledger
// counts it, and for every step the two are equal.
//
// A link is one direction of one connection of a rank. Of collectives, what this rank receives;
// what moves within device memory is on no link.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "offload/tier.h"

namespace strata::offload {

enum class Link : std::uint8_t {
  nvme_read,
  nvme_written,
  to_device,    // host to device
  from_device,  // device to host
  gathered,
  reduced
};
inline constexpr int kLinks = 6;
const char* name_of(Link link);
const char* key_of(Link link);  // in JSON: "nvme_read_bytes"

// The kinds of state, in StateKind's order, and what else moves.
enum class MovedKind : std::uint8_t {
  weights,
  remainder,
  moment1,
  moment2,
  gradients,
  activations,
  batch  // token ids in, the loss out
};
inline constexpr int kMovedKinds = 7;
inline constexpr std::array<MovedKind, 6> kStoredKinds = {
    MovedKind::weights, MovedKind::remainder, MovedKind::moment1,
    MovedKind::moment2, MovedKind::gradients, MovedKind::activations};  // that NVMe holds
const char* name_of(MovedKind kind);
constexpr MovedKind moved(StateKind kind) { return static_cast<MovedKind>(kind); }

class Traffic {
 public:
  void add(Link link, MovedKind kind, std::int64_t bytes) { at(link, kind) += bytes; }
  std::int64_t bytes(Link link, MovedKind kind) const {
    return bytes_[static_cast<std::size_t>(link)][static_cast<std::size_t>(kind)];
  }
  std::int64_t bytes(Link link) const;  // of all kinds

  // Calls visit(link, kind, bytes) for what is not zero.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (int l = 0; l < kLinks; ++l) {
      for (int k = 0; k < kMovedKinds; ++k) {
        const auto link = static_cast<Link>(l);
        const auto kind = static_cast<MovedKind>(k);
        if (const std::int64_t moved = bytes(link, kind)) visit(link, kind, moved);
      }
    }
  }

  Traffic& operator+=(const Traffic& other);
  Traffic& operator-=(const Traffic& other);
  bool operator==(const Traffic&) const = default;

 private:
  std::int64_t& at(Link link, MovedKind kind) {
    return bytes_[static_cast<std::size_t>(link)][static_cast<std::size_t>(kind)];
  }
  std::array<std::array<std::int64_t, kMovedKinds>, kLinks> bytes_{};
};

// Whom the bytes are charged to.
enum class Account : std::uint8_t {
  pass,    // a pass over the model: of a step, an evaluation, a sample
  update,  // the optimizer's update of a step, whenever that is made
  commit,  // copies of what does not live in the storage
  other    // the initial state, reading it for a copy of the run
};
inline constexpr int kAccounts = 4;

// Counts what moves, where it is moved: once per transfer. Thread-safe.
class Ledger {
 public:
  void add(Account account, Link link, MovedKind kind, std::int64_t bytes) {
    at(account, link, kind).fetch_add(bytes, std::memory_order_relaxed);
  }
  // Since construction; of transfers that were started.
  Traffic total(Account account) const;
  Traffic total() const;

 private:
  using Counter = std::atomic<std::int64_t>;
  Counter& at(Account account, Link link, MovedKind kind) {
    return counters_[static_cast<std::size_t>(account)][static_cast<std::size_t>(link)]
                    [static_cast<std::size_t>(kind)];
  }
  std::array<std::array<std::array<Counter, kMovedKinds>, kLinks>, kAccounts> counters_{};
};

}  // namespace strata::offload
