// Plan: where every shard's every state lives, all buffer sizes, and the bytes a step moves. Made
// before step 1 and never exceeded: what the run reserves is exactly plan.buffers.
//
// A plan for weights alone (StateDtypes::content) has no other state, no gradients and no
// optimizer, and its walk is that of an evaluation.
//
// Knows the sizes of units, not what is in them. Per rank; every rank makes the same plan from the
// same input.
//
// Unset placements: activations lie on the first of device, host and NVMe that has room for them.
// State stays together where that fits (Homes): first what the device updates, then host memory.
// What does not fit so is spread over device, host and NVMe, in that order, kind by kind, in the
// order of NVMe bytes saved per byte held: weights, gradients, then remainder and moments. A device
// that updates holds as many whole units as fit before that, unless NVMe moves more for it. They
// are taken in the order of the bytes that a step then neither moves nor passes over on the host,
// per byte held.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "offload/record_schedule.h"
#include "offload/slot_schedule.h"
#include "offload/tier.h"
#include "offload/traffic.h"

namespace strata::offload {

inline constexpr std::int64_t kShardAlignmentElements = 4096;

struct UnitSize {
  std::string name;
  std::int64_t elements = 0;
  int gradient_contributions = 1;  // per pass: 2 for a tied table
  bool frozen = false;             // never updated: no gradient is kept, no moments
};

struct PlannedBuffer {
  Tier tier;
  std::string tag;
  std::int64_t bytes;  // as reserved: rounded to the tier's granule
};

enum class UpdateTime : std::uint8_t { deferred, in_backward };

// What outlives the run. none: nothing; what the plan puts on NVMe has one slot in the storage.
// clean_mark: the state as it is between two steps, in one slot. commits: checkpoints; every
// shard's lasting state has two slots, but for frozen units, which are written once.
enum class Durability : std::uint8_t { none, clean_mark, commits };
inline constexpr int kSlotsMax = 2;

// How the state lies, which decides what carries it.
enum class Homes : std::uint8_t {
  device,  // all on the device, which updates it: nothing does
  units,   // whole units there, the others in host memory
  host,    // all in host memory
  tiers    // anywhere, through staging
};

struct PlanInput {
  std::vector<UnitSize> units;
  int world_size = 1;
  StateDtypes dtypes;
  UpdateTime update = UpdateTime::deferred;
  bool device_updates = false;  // where all of a unit's state is on the device, by the device
  Durability durability = Durability::none;
  int passes = 1;  // per step
  Placement placement;
  std::int64_t device_memory_bytes = 0;
  std::int64_t host_memory_bytes = 0;  // of this rank
  int prefetch = 2;
  std::int64_t chunk_elements = 1 << 20;  // of one optimizer transfer; rounded to whole blocks
  std::int64_t block_elements = kBlockElements;
  std::vector<int> uses;                  // units in the order one pass gathers them
  std::int64_t forward_uses = 0;          // how many of them belong to the forward
  std::vector<RecordAccess> record_walk;  // of the largest pass
  int backward_turn = 0;                  // its first turn that belongs to the backward
  // Of this rank's last pass, where that is smaller.
  struct LastPass {
    std::vector<RecordAccess> record_walk;
    int backward_turn = 0;
  };
  std::optional<LastPass> last_pass;
  std::int64_t batch_bytes = 0;   // token ids and their like: of this rank's part of a step
  std::int64_t result_bytes = 0;  // what comes back of a step: its loss
  std::vector<std::int64_t> record_bytes;
  std::vector<PlannedBuffer> fixed;  // what compute and communication need
};

struct UnitPlan {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t shard_elements = 0;  // one rank's, padded
  bool frozen = false;
  bool updated_on_device = false;
  std::array<Tier, kStateKinds> tiers{};
  std::int64_t gradient_element_bytes = 0;  // as stored between contributions
  Tier tier(StateKind kind) const { return tiers[static_cast<std::size_t>(kind)]; }
};

// The norm is a barrier between the phases of a step.
enum class Phase : std::uint8_t { forward, backward };
inline constexpr int kPhases = 2;

// Bytes that one phase of a step moves on this rank. (Sequences that are padded to less than their
// full length make a smaller batch.)
struct PhaseTraffic {
  Traffic moved;
  std::int64_t optimizer_bytes = 0;  // state read and written by the CPU optimizer
  std::int64_t bytes(Link link) const { return moved.bytes(link); }
};

struct Plan {
  StateDtypes dtypes;
  int world_size = 1;
  UpdateTime update = UpdateTime::deferred;
  Durability durability = Durability::none;
  int passes = 1;
  int prefetch = 0;
  std::vector<UnitPlan> units;
  std::vector<ScheduledUse> uses;  // of one pass
  int weight_slots = 0;
  int weight_staging_slots = 0;  // 0: no unit needs staging
  Homes homes = Homes::tiers;
  bool device_updates = false;         // some unit may be updated there
  std::int64_t unit_elements_max = 0;  // padded, all ranks' shards
  std::int64_t chunk_elements = 0;     // whole blocks, or the longest shard
  std::int64_t block_elements = kBlockElements;
  Tier activations = Tier::device;
  std::vector<std::int64_t> record_bytes;
  std::vector<ScheduledAccess> accesses;  // of one pass; empty when activations is device
  RecordSlots record_slots;               // that they pass through; none there
  std::vector<PlannedBuffer> buffers;     // device and host; NVMe extents too
  std::array<PhaseTraffic, kPhases> traffic;
  std::int64_t device_memory_bytes = 0;  // the budgets it was made for
  std::int64_t host_memory_bytes = 0;

  std::int64_t total_bytes(Tier tier) const;
  // Of one state of this rank's shard, as stored.
  std::int64_t shard_bytes(const UnitPlan& unit, StateKind kind) const;
  // Of consecutive elements from a block's start on (state_bytes); gradients: of final ones.
  std::int64_t bytes_of_elements(StateKind kind, std::int64_t elements) const;
  // Of one checksummed block of a state; gradients: of a final one.
  std::int64_t block_bytes(StateKind kind) const;
  // The longest block that some lasting state has.
  std::int64_t largest_block_bytes() const;
  // Of one state of this rank's shard, in the storage: 0 where it has no place there.
  int slots(const UnitPlan& unit, StateKind kind) const;
  // Host memory for the checksums of everything that could lie on NVMe; 0 when nothing can.
  std::int64_t checksum_bytes() const;
  // Host memory to make state durable from and to fill it through; 0 when nothing outlives the run.
  std::int64_t checkpoint_staging_bytes() const;
  // What a commit writes, in a durable run: copies of what lasts, is updated and does not live in
  // the storage; and its table and superblock.
  std::int64_t commit_copy_bytes() const;
  std::int64_t commit_metadata_bytes() const;
  // Per unit: whether it is gathered into a slot. Weights that live whole on the device are used
  // where they are.
  std::vector<std::uint8_t> gathered_units() const;
  // Whether some state lives outside host memory, so that there are buffers to carry it.
  bool stages_state() const { return weight_staging_slots > 0; }
  bool trains() const { return dtypes.content == StateContent::training; }
  // Turns that activation records are loaded ahead of their use.
  int record_lookahead() const { return prefetch > 0 ? 1 : 0; }
  std::int64_t nvme_read_bytes() const;  // of a step
  std::int64_t nvme_written_bytes() const;
  Traffic step_traffic() const;  // of both phases
  const PhaseTraffic& phase(Phase phase) const { return traffic[static_cast<std::size_t>(phase)]; }
};

// The first budget that is too small for what cannot live elsewhere.
struct Shortfall {
  Tier tier;
  std::int64_t needed_bytes;
  std::int64_t budget_bytes;
};

struct PlanResult {
  bool fits = false;
  Plan plan;            // when it fits
  Shortfall shortfall;  // when it does not
};

PlanResult make_plan(const PlanInput& input);

// The kinds of state that a chunk of the optimizer's carries through its buffer, in their order.
std::vector<StateKind> streamed_kinds(const Plan& plan);
// Bytes of one of the optimizer's kOptimizerBuffers: one chunk of each of them.
std::int64_t optimizer_buffer_bytes(const Plan& plan);

// Where state passes through when it is first brought to the device or to NVMe, where no buffers
// of the step's carry it.
std::int64_t loading_staging_bytes(const Plan& plan);
inline constexpr const char* kLoadingStagingTag = "loading staging";

// Slots for gathered units, gradients and so on, shared with those that allocate them.
inline constexpr int kGradientSlots = 2;
inline constexpr int kGradientStagingSlots = 2;
inline constexpr int kOptimizerBuffers = 4;
// A sum of squares of so many elements is what a gradient's norm consists of.
inline constexpr std::int64_t kNormBlockElements = 4096;
static_assert(kShardAlignmentElements % kNormBlockElements == 0);
// Of a shard's: those sums, f64.
constexpr std::int64_t norm_bytes(std::int64_t shard_elements) {
  return shard_elements / kNormBlockElements * std::int64_t{sizeof(double)};
}
// What updates on the device tell the host: those sums, and whether a unit left its domain.
inline constexpr const char* kDeviceUpdatesTag = "device updates";
inline constexpr std::int64_t kDomainBytes = 4;
// Of what is on NVMe: one for each block (extent_map.h), in host memory.
inline constexpr std::int64_t kChecksumBytes = 8;
inline constexpr const char* kChecksumsTag = "checksums";
// On NVMe: what durability takes beyond the states that live there.
inline constexpr const char* kCheckpointSlotsTag = "checkpoint slots";
inline constexpr const char* kCheckpointStagingTag = "checkpoint staging";

}  // namespace strata::offload
