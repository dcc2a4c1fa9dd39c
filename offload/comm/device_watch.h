// DeviceWatch: finds the collectives of DeviceCollectives that do not end, and who keeps them.
// Communication thread only; its times (comm_thread.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "offload/comm/device_collectives.h"
#include "offload/comm/heartbeat.h"

namespace strata::comm {

class DeviceWatch {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  explicit DeviceWatch(std::shared_ptr<const DeviceCollectives> collectives)
      : collectives_(std::move(collectives)) {}

  // Looks at the numbers, and has the heartbeat tell them.
  void look(Heartbeat& heartbeat, Nanoseconds now);

  // The kind whose oldest collective has been under way for longest, if one is.
  struct UnderWay {
    std::size_t kind = 0;
    std::uint64_t number = 0;  // from 1
    Nanoseconds duration{0};
    const char* name() const { return DeviceCollectives::kKinds[kind]; }
  };
  std::optional<UnderWay> longest(Nanoseconds now) const;
  // Ranks that have not begun it.
  std::vector<int> missing(const UnderWay& it, const Heartbeat& heartbeat, int world_size) const;

  // What the library met, and when that was seen.
  struct Error {
    std::string text;
    Nanoseconds seen{0};
  };
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Kind {
    std::uint64_t begun = 0;
    std::uint64_t complete = 0;
    Nanoseconds since{0};  // nothing has changed
  };
  std::shared_ptr<const DeviceCollectives> collectives_;
  std::array<Kind, DeviceCollectives::kKinds.size()> kinds_;
  std::optional<Error> error_;
};

}  // namespace strata::comm
