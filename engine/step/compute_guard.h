// ComputeGuard: the last member of what runs passes on a compute stream. At its end, also when a
// pass ends in the middle, nothing that the stream still runs uses the other members any more.
#pragma once

#include "kernels/base/failure_latch.h"
#include "kernels/device/device.h"

namespace strata::engine {

class ComputeGuard {
 public:
  ComputeGuard(Stream& compute, FailureLatch& failure) : compute_(compute), failure_(failure) {}
  // Where an exception is under way, sets the latch, so that threads that wait for a pass stop.
  ~ComputeGuard();
  ComputeGuard(const ComputeGuard&) = delete;
  ComputeGuard& operator=(const ComputeGuard&) = delete;

 private:
  Stream& compute_;
  FailureLatch& failure_;
};

}  // namespace strata::engine
