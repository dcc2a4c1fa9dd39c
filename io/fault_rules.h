// FaultRules: what a FaultEngine does wrong, decided by a seed and the number of the request.
//
// A *request* here is what an engine sees: a piece of a transfer, its continuation after a short
// transfer, or its repetition after an interruption. Requests are numbered from 0 in the order of
// submission; the same seed decides the same for the same number, whatever the timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "io/transfer.h"

namespace strata::io {

enum class Fault : std::uint8_t {
  none,
  error,                 // EIO; nothing is transferred
  full,                  // a write meets ENOSPC; nothing is transferred
  interruption,          // EINTR or EAGAIN; nothing is transferred
  short_transfer,        // a part of at least a page is transferred, and the result says so
  duplicate_completion,  // answered twice
  lost_completion,       // carried out and never answered
  // Silent: the result claims success.
  read_flip,          // one bit of what is read
  write_flip,         // one bit of what is stored
  lost_write,         // nothing is stored
  misdirected_write,  // stored in another place
};
inline constexpr std::size_t kFaults = 11;

constexpr bool is_silent(Fault fault) { return fault >= Fault::read_flip; }

struct FaultRules {
  std::uint64_t seed = 1;
  int delay_us_max = 0;                // each request is carried out after 0..max microseconds
  int write_us_per_page = 0;           // and a write so much later
  std::int64_t fail_request = -1;      // this request fails with EIO
  std::int64_t lose_completion = -1;   // of this request
  std::int64_t full_after_bytes = -1;  // writes beyond this total fail with ENOSPC
  std::int64_t flip_read = -1;         // one bit of this read's data (reads from 0) is flipped

  // Of each request, which has one fault at most: they must not add up to more than 1. A fault that
  // makes no sense for a request leaves it alone. Not of `full`, which has its own rule.
  std::array<double, kFaults> probability{};

  constexpr FaultRules with(Fault fault, double its_probability) const {
    FaultRules rules = *this;
    rules.probability[static_cast<std::size_t>(fault)] = its_probability;
    return rules;
  }

  friend bool operator==(const FaultRules&, const FaultRules&) = default;
};

// What was done wrong to a request; for tests that check that nothing else went wrong.
struct InjectedFault {
  std::int64_t request = 0;
  Fault fault = Fault::none;
  Operation operation = Operation::read;
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;
  std::int64_t stored_offset_bytes = 0;  // where a misdirected write went

  friend bool operator==(const InjectedFault&, const InjectedFault&) = default;
};

}  // namespace strata::io
