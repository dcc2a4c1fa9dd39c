// StateAccess: whole shards in and out of their tiers, one at a time, while no step runs: the
// initial state, and what reads weights for people and tests. Not the step's path.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "models/unit_spec.h"
#include "offload/state_store.h"

namespace strata::engine {

class StateAccess {
 public:
  // `scratch`: pinned memory that is idle meanwhile; may be empty when every state is in host
  // memory.
  StateAccess(offload::StateStore& store, Device& device, AlignedSpan scratch);

  // A range of a shard, in bytes: whole blocks, or up to the shard's end. read() blocks until done;
  // write() copies the source and goes on while NVMe writes: flush() waits for all of them.
  void read(int unit, offload::StateKind kind, std::int64_t offset_bytes,
            std::span<std::byte> destination);
  void write(int unit, offload::StateKind kind, std::int64_t offset_bytes,
             std::span<const std::byte> source);
  void flush();

 private:
  struct Part {  // of the scratch memory: one transfer under way
    AlignedSpan memory;
    offload::VerifiedReads reads;
    io::IoGroup writes;
  };
  // The next part, idle.
  Part& take_part();
  // What fits a part, of what is left to move.
  std::int64_t whole_blocks(offload::StateKind kind, const Part& part, std::size_t left) const;

  offload::StateStore& store_;
  std::unique_ptr<Stream> copies_;
  std::array<Part, 4> parts_;
  std::size_t parts_used_ = 0;
  std::size_t taken_ = 0;
};

// Fills this rank's shards: weights and remainders from the model's initial values, zero moments.
void initialise_state(StateAccess& access, offload::StateStore& store, WorkerSet& workers,
                      const std::vector<models::UnitSpec>& units, std::uint64_t seed, int rank);

// The f32 masters of this rank's shard of a unit, without padding.
std::vector<float> read_master(StateAccess& access, const offload::StateStore& store, int unit,
                               int rank);
// Replaces them, in working weights and remainders: an update. As many as read_master returns.
void write_master(StateAccess& access, offload::StateStore& store, int unit, int rank,
                  std::span<const float> master);

}  // namespace strata::engine
