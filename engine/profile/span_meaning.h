// What the names of trace spans and of their rows mean for a profile: which spans are work, which
// are waits and for what, and who gives a row its work. The one place that knows them all; a span
// whose name is not known here and does not begin with "wait" is work.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/device/device.h"

namespace strata::engine {

// Why a row does nothing.
enum class Idle : std::uint8_t {
  read,     // for bytes from NVMe
  verify,   // for the checksums of bytes that are there: no request is in flight
  write,    // for bytes to be on NVMe
  staging,  // for pinned memory whose last content is still on its way
  slot,     // for a place on the device that is in use
  compute,  // for the compute stream to come so far
  update,   // for the optimizer
  other,    // for another stream or thread that is at work
  ranks,    // for other ranks
  commit,   // for a commit that updates must not overtake
  nothing   // there is nothing to do
};
inline constexpr int kIdles = 11;
const char* name_of(Idle idle);

struct SpanMeaning {
  enum class Kind : std::uint8_t { work, idle, as_row };
  Kind kind = Kind::work;
  Idle idle = Idle::nothing;  // of Kind::idle
  std::string_view row = {};  // of Kind::as_row: it waits for this row, for the reason that one has
};
SpanMeaning meaning_of(std::string_view span_name);

// The row without whose work this one has none; "" where nobody gives it any.
std::string_view feeder_of(std::string_view row);

// Why others wait for a row that is at work.
Idle waiting_for_work_of(std::string_view row);

// Rows whose work takes cores: threads, and on the cpu device streams.
bool uses_cores(std::string_view row, DeviceKind device);

// Rows of a drive: requests overlap on them.
inline constexpr std::string_view kDriveReads = "nvme read";
inline constexpr std::string_view kDriveWrites = "nvme write";
// The rows that make requests of a drive, in the order in which its idleness is explained by them.
inline constexpr std::string_view kDriveFeeders[] = {"fetch", "gradients", "act load", "act store",
                                                     "commit"};

}  // namespace strata::engine
