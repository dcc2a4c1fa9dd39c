// OperandFill: puts numbers into device memory for ops that are measured. A cpu device's memory its
// workers write; a GPU's is copied from pinned memory that is taken for the purpose, as much as the
// plan has room for.
//
// Thread contract: one thread. Memory is ready when a function returns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/plan/run_setup.h"
#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::engine {

class OperandFill {
 public:
  OperandFill(const RunSetup& setup, Device& device);

  // In [-scale, scale). On a GPU the same ones come again and again.
  void random(const ops::Matrix& numbers, float scale);
  // So that no op is the first to touch a page.
  void zero(const DeviceBuffer& buffer);
  void write(std::int32_t* to, std::span<const std::int32_t> values);

 private:
  WorkerSet* workers_ = nullptr;  // null: a GPU, which has the others
  std::unique_ptr<Stream> stream_;
  PinnedBuffer staging_;
};

}  // namespace strata::engine
