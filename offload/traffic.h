// Traffic: the bytes that move over each link, by what they are. The plan predicts it, the ledger
// counts it, and for every step the two are equal.
//
// A link is one direction of one connection of a rank. Of collectives, what this rank receives.
#pragma once

#include <array>
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
const char* name_of(MovedKind kind);
constexpr MovedKind moved(StateKind kind) { return static_cast<MovedKind>(kind); }

class Traffic {
 public:
  void add(Link link, MovedKind kind, std::int64_t bytes) { at(link, kind) += bytes; }
  std::int64_t bytes(Link link, MovedKind kind) const {
    return bytes_[static_cast<std::size_t>(link)][static_cast<std::size_t>(kind)];
  }
  std::int64_t bytes(Link link) const;  // of all kinds

  Traffic& operator+=(const Traffic& other);
  Traffic& operator-=(const Traffic& other);
  bool operator==(const Traffic&) const = default;

 private:
  std::int64_t& at(Link link, MovedKind kind) {
    return bytes_[static_cast<std::size_t>(link)][static_cast<std::size_t>(kind)];
  }
  std::array<std::array<std::int64_t, kMovedKinds>, kLinks> bytes_{};
};

}  // namespace strata::offload
