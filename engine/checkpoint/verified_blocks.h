// VerifiedBlocks: reads blocks of commits in a given order, several in flight, each verified before
// anybody sees it.
//
// Two batches take turns in the staging memory: while the blocks of one are read, those of the
// other are checked by the workers and consumed.
//
// Thread contract: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "offload/store/block_reader.h"

namespace strata::engine {

// A commit cannot be read, or not as it was written. Names parameters and their ranges, file and
// offset.
class DamagedCommit final : public IoError {
 public:
  using IoError::IoError;
};

struct StoredBlock {
  const store::BlockReader* reader;
  const store::CommitTable* table;
  int unit;
  offload::StateKind kind;
  std::int64_t block;
};

class VerifiedBlocks {
 public:
  // `staging`: two blocks of `block_bytes` at least; as many as fit are used, up to 32. `failure`
  // may be null.
  VerifiedBlocks(AlignedSpan staging, std::int64_t block_bytes, WorkerSet& workers,
                 const FailureLatch* failure);

  // `index`: in `blocks`. Called in their order.
  using Consume = std::function<void(std::size_t index, std::span<const std::byte> bytes)>;
  // Throws DamagedCommit for the first block that is not what was written; what `consume` throws;
  // the failure of the run, looked for with each batch.
  void read(std::span<const StoredBlock> blocks, const Consume& consume);

 private:
  struct Flight {
    AlignedSpan memory;
    std::size_t index = 0;
    std::int64_t bytes = 0;
    bool intact = false;
    io::IoGroup group;  // last: it waits for what is in flight
  };
  struct Batch {
    std::vector<Flight> flights;
    std::size_t used = 0;
  };

  std::size_t start(Batch& batch, std::span<const StoredBlock> blocks, std::size_t next);
  void finish(Batch& batch, std::span<const StoredBlock> blocks, const Consume& consume);
  void drop_flights() noexcept;

  WorkerSet& workers_;
  const FailureLatch* failure_;
  std::array<Batch, 2> batches_;
};

}  // namespace strata::engine
