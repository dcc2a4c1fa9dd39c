// RunSetup: what the options mean for this model, this data and this many ranks: everything that is
// decided before memory is reserved. `plan` prints it, `train` runs it; `eval` and `generate` run
// one for inference, whose plan has the weights alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/options/options.h"
#include "engine/plan/batch_layout.h"
#include "engine/plan/decode_sizes.h"
#include "engine/plan/memory_budgets.h"
#include "engine/plan/model_source.h"
#include "engine/plan/model_walk.h"
#include "engine/plan/parameter_groups.h"
#include "engine/plan/pass_sizes.h"
#include "engine/plan/rank_device.h"
#include "kernels/base/error.h"
#include "kernels/base/isa.h"
#include "kernels/device/device.h"
#include "kernels/ops/cpu_ops.h"
#include "models/unit_spec.h"
#include "offload/comm/communicator.h"
#include "offload/plan.h"

namespace strata::engine {

struct RunSetup {
  Options options;
  comm::Topology topology;
  RankDevice device;
  ModelSource source;
  models::ModelConfig model;  // the source's
  std::vector<models::UnitSpec> units;
  UnitIndex index;
  std::int64_t block_elements = offload::kBlockElements;
  std::vector<std::vector<ParameterSegment>> parameter_groups;  // per unit
  BatchLayout batch;
  PassShape shape;
  DecodeShape decode;  // with positions where text is generated
  Isa isa = Isa::scalar;
  int threads = 1;
  std::vector<int> cpus;  // that workers are bound to
  ops::CpuOpsLimits op_limits;
  offload::PlanInput plan_input;
  offload::Plan plan;
};

// Says which budget is short by how much, and the smallest change that would fit.
class PlanDoesNotFit : public OutOfBudget {
 public:
  PlanDoesNotFit(const std::string& message, const offload::Shortfall& shortfall)
      : OutOfBudget(message), shortfall_(shortfall) {}
  const offload::Shortfall& shortfall() const { return shortfall_; }

 private:
  offload::Shortfall shortfall_;
};

// Resolves everything and makes the plan. Throws ConfigError (options that contradict the model) or
// PlanDoesNotFit. `block_elements`: tests of small models, whose shards are shorter than a block,
// make it smaller.
RunSetup make_run_setup(const Options& options, const comm::Topology& topology,
                        comm::Communicator::StagingBytes comm_staging,
                        std::int64_t block_elements = offload::kBlockElements,
                        Purpose purpose = Purpose::training, const RankDevice& device = {});

// make_run_setup() but for the plan, with these budgets: of setup.plan_input, which may not fit.
// Throws ConfigError.
RunSetup resolve_run_setup(const Options& options, const comm::Topology& topology,
                           comm::Communicator::StagingBytes comm_staging,
                           const MemoryBudgets& budgets,
                           std::int64_t block_elements = offload::kBlockElements,
                           Purpose purpose = Purpose::training, const RankDevice& device = {});

// Gives a resolved setup other options, that differ from its own in nothing but --place,
// --activations, --prefetch and --chunk-size, and other budgets. Throws ConfigError.
void set_tiers(RunSetup& setup, const Options& options, const MemoryBudgets& budgets);

// The device that it is for, of a described machine too: "cpu", "cuda".
std::string device_name(const RunSetup& setup);

// Tags of the buffers that Trainer reserves besides those of offload/ and ModelPass.
inline constexpr const char* kTokensTag = "tokens";
inline constexpr const char* kResultsTag = "results";  // sums of losses
inline constexpr std::int64_t kResultsBytes = Device::kAlignmentBytes;
inline constexpr std::int64_t kLossBytes = sizeof(double);  // of a step, on its way out
inline constexpr const char* kPortableTag = "portable checkpoint";
inline constexpr int kPortableBlocks = 3;
// Host memory for copies of commits (--checkpoint-to, --export), so many blocks in f32; 0 where
// there are none.
std::int64_t portable_memory_bytes(const RunSetup& setup);
// Of inference: what blocks of a run's commit pass through when they are read; 0 for other models.
inline constexpr const char* kStoredBlocksTag = "stored blocks";
std::int64_t stored_blocks_bytes(const RunSetup& setup);

}  // namespace strata::engine
