// BatchLoader: samples, through pinned memory, as micro-batches on the device.
//
// The sequences of a micro-batch have one length T: that of a full sample or, of padded ones, the
// longest of theirs, rounded up to kPaddedMultiple.
// Reserves device and host memory for the micro-batches of a whole step, once.
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/data/samples.h"
#include "engine/plan/batch_layout.h"
#include "engine/step/model_pass.h"
#include "kernels/device/device.h"
#include "offload/traffic.h"

namespace strata::engine {

// Rows of some micro-batches.
struct RowCounts {
  std::int64_t targets = 0;   // with a loss
  std::int64_t tokens = 0;    // of documents, with a loss or not
  std::int64_t computed = 0;  // with padding

  RowCounts& operator+=(const RowCounts& other);
};

struct LoadedBatches {
  std::span<const MicroBatch> batches;
  RowCounts rows;
};

class BatchLoader {
 public:
  BatchLoader(const BatchLayout& layout, Device& device, Stream& compute, offload::Ledger& ledger);

  // Loads samples [first, first + count) of an order (position → sample) and makes the compute
  // stream wait for them. At most the sequences of a step. The result is valid until the next call,
  // which must come after the compute that uses it has finished.
  LoadedBatches load(const Samples& samples, const std::function<std::int64_t(std::int64_t)>& order,
                     std::int64_t first, std::int64_t count);

 private:
  // Of the rows from `first` on, in host memory.
  SampleRows host_rows(std::int64_t first, std::int64_t count);
  // `sequences` of `length` that are uploaded from row `first` on.
  MicroBatch micro_batch(SampleLayout layout, std::int64_t first, std::int64_t sequences,
                         std::int64_t length) const;
  void upload(std::int64_t rows);

  BatchLayout layout_;
  Stream& compute_;
  offload::Ledger& ledger_;
  std::int64_t rows_max_;
  DeviceBuffer device_rows_;  // tokens, targets, positions, document starts: rows_max_ of each
  PinnedBuffer host_rows_;
  std::vector<MicroBatch> batches_;
};

}  // namespace strata::engine
