// BatchLoader: token windows from a source, through pinned memory, as micro-batches on the device.
//
// Sequence s of the data is tokens [s·T, s·T + T] : inputs are the first T, targets the last T.
// Reserves device and host memory for the micro-batches of a whole step, once.
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/data/token_source.h"
#include "engine/plan/batch_layout.h"
#include "engine/step/model_pass.h"
#include "kernels/device/device.h"

namespace strata::engine {

class BatchLoader {
 public:
  BatchLoader(const BatchLayout& layout, Device& device, Stream& compute);

  // Loads sequences [first, first + count) of an order (position → sequence number) and makes the
  // compute stream wait for them. At most the sequences of a step. The result is valid until the
  // next call, which must come after the compute that uses it has finished.
  std::span<const MicroBatch> load(const TokenSource& source,
                                   const std::function<std::int64_t(std::int64_t)>& order,
                                   std::int64_t first, std::int64_t count);

  // One sequence, given directly, for sampling; targets are ignored ones.
  MicroBatch load_tokens(std::span<const std::int32_t> tokens);

 private:
  void upload(std::int64_t rows);
  BatchLayout layout_;
  Stream& compute_;
  std::int64_t rows_max_;
  DeviceBuffer device_tokens_;  // tokens, targets, positions: rows_max_ of each
  PinnedBuffer host_tokens_;
  std::vector<std::int32_t> window_;  // T + 1
  std::vector<MicroBatch> batches_;
};

}  // namespace strata::engine
