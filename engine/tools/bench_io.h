// IoBench: measures a Storage the way a training run uses it: whole blocks, several in flight,
// walked in order, each checksummed (XXH3) before it is written and after it is read.
//
// fill() comes first: it writes every byte, since reading space that was never written needs no
// drive. All data is random and no two pages written are alike, so a drive that compresses or
// deduplicates gains nothing.
//
// Checksums are computed by the calling thread, one piece of `granule_bytes` at a time, on a block
// more than those in flight, as a run's staging has one: the drive need not wait for them. A read
// whose bytes are not those last written there ends the measurement with an IoError.
// One thread calls; all memory is taken at construction.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/tools/bench_table.h"
#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/budget.h"

namespace strata::engine {

enum class Checksums : std::uint8_t { off, on };

struct IoBenchOptions {
  Checksums checksums = Checksums::on;
  std::int64_t granule_bytes = 0;  // what one checksum covers; divides every block
  std::int64_t memory_bytes = 0;   // the largest block × (depth + 1) to be measured
};

class IoBench {
 public:
  // `storage` outlives this, and has room for twice the blocks in flight.
  IoBench(io::Storage& storage, const IoBenchOptions& options);

  void fill();

  // Requests for about `seconds`; everything submitted is waited for and counted. A latency is from
  // a block's submission until the thread that waits for blocks in order has it.
  BenchCell measure(BenchMode mode, std::int64_t block_bytes, int depth, double seconds);

  // Of this thread, on data that comes from memory, as it does after a transfer.
  double checksum_bytes_per_s() const;

 private:
  struct Lane;
  class Walk;

  void prepare(Lane& lane);
  void submit(Lane& lane);
  void check(const Lane& lane) const;
  void stamp(AlignedSpan span);
  void note_checksums(std::int64_t offset_bytes, AlignedSpan span);
  void check_checksums(std::int64_t offset_bytes, AlignedSpan span) const;
  // Calls visit(granule, piece of `span`) for the granules at `offset_bytes`.
  template <typename Visit>
  void for_granules(std::int64_t offset_bytes, AlignedSpan span, const Visit& visit) const;

  io::Storage& storage_;
  const IoBenchOptions options_;
  Budget budget_;
  AlignedBuffer memory_;
  std::vector<std::uint64_t> checksums_;  // of what was last written, by granule
  std::uint64_t pages_stamped_ = 0;
};

}  // namespace strata::engine
