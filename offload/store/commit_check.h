// CommitCheck: reads the blocks of a commit at the drive's speed and compares their checksums on
// all cores, to the end, whatever it finds.
//
// Two batches take turns in the staging memory: while the blocks of one are read, those of the
// other are checked.
//
// Thread contract: one thread. Allocates at construction, and for what is damaged.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/worker_set.h"
#include "offload/plan.h"
#include "offload/store/block_reader.h"
#include "offload/store/manifest.h"
#include "offload/store/superblock.h"

namespace strata::store {

struct DamagedBlock {
  int unit = 0;
  offload::StateKind kind = offload::StateKind::weights;
  std::int64_t block = 0;
  std::string problem;  // the failure of the read; empty: the bytes are not those of the commit
  friend bool operator==(const DamagedBlock&, const DamagedBlock&) = default;
};

class CommitCheck {
 public:
  // Staging for this many blocks in flight, over both batches.
  static std::int64_t staging_bytes(const Manifest& manifest, int blocks);

  // `staging`: two of the largest blocks at least. All must outlive it.
  CommitCheck(const BlockReader& reader, const Manifest& manifest, AlignedSpan staging,
              WorkerSet& workers);

  enum class Next { go_on, stop };
  using OnDamage = std::function<Next(const DamagedBlock&)>;

  // Checks the units that `wanted` says (by index; empty: all), in the table's order, and returns
  // the bytes it read.
  std::int64_t run(const CommitTable& table, const std::vector<bool>& wanted,
                   const OnDamage& on_damage);

 private:
  struct Flight {
    AlignedSpan memory;
    int unit = 0;
    offload::StateKind kind = offload::StateKind::weights;
    std::int64_t block = 0;
    std::int64_t bytes = 0;
    bool intact = false;
    std::optional<std::string> failure;  // of the read
    io::IoGroup group;
  };
  struct Batch {
    std::deque<Flight> flights;
    std::size_t used = 0;
  };

  bool advance(const std::vector<bool>& wanted);  // to the next block; false: there is none
  void start(Batch& batch, const CommitTable& table, const std::vector<bool>& wanted);
  static void wait_for(Batch& batch);
  Next settle(Batch& batch, const CommitTable& table, const OnDamage& on_damage);

  const BlockReader& reader_;
  const Manifest& manifest_;
  WorkerSet& workers_;
  std::array<Batch, 2> batches_;
  // The block that was started last.
  int unit_ = 0;
  std::size_t kind_ = 0;  // index in kLastingKinds
  std::int64_t block_ = -1;
};

}  // namespace strata::store
