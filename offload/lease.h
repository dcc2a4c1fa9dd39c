// Lease: keeps a gathered unit on the device while it is used. Move-only; ends when destroyed, from
// the compute stream's point of view after the work enqueued so far.
#pragma once

#include <cstddef>
#include <utility>

namespace strata::offload {

class WeightStreamer;

class Lease {
 public:
  Lease(Lease&& other) noexcept
      : streamer_(std::exchange(other.streamer_, nullptr)),
        slot_(other.slot_),
        data_(other.data_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  // The unit's flat buffer of working weights, in device memory.
  const std::byte* data() const { return data_; }

 private:
  friend class WeightStreamer;
  Lease(WeightStreamer& streamer, int slot, const std::byte* data)
      : streamer_(&streamer), slot_(slot), data_(data) {}
  WeightStreamer* streamer_;
  int slot_;
  const std::byte* data_;
};

}  // namespace strata::offload
