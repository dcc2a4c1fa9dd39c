#include "engine/plan/run_setup.h"

#include <algorithm>
#include <cmath>

#include "engine/plan/budget_advice.h"
#include "engine/plan/prompt.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "kernels/ops/cuda_ops.h"
#include "models/decoder_block.h"

namespace strata::engine {

using offload::PlannedBuffer;
using offload::Tier;

namespace {

constexpr std::int64_t kStoredBlocks = 6;  // several in flight

// Schedules are made for every micro-batch of a pass, and tokens held for every one of a step.
constexpr std::int64_t kMicroBatchesPerPassMax = 1 << 14;
constexpr std::int64_t kTokensPerStepMax = std::int64_t{1} << 32;

// Unless they are chosen: tokens of a sequence, which a model with a long context would take far
// more memory for, and rows of a pass, each of which reads all weights; fewer where memory is
// short.
constexpr std::int64_t kInferenceTokens = 2048;
constexpr std::int64_t kInferencePassRows = 8192;

// A step of inference is one pass. The model of a run is read as the run reads its own.
BatchLayout inference_batch(const Options& options, const models::ModelConfig& model,
                            int world_size) {
  BatchLayout batch;
  batch.world_size = world_size;
  if (has_prompt(options)) {  // its passes are those of decoding
    batch.micro_batch = 1;
    batch.seq_len = std::min(model.context, kDecodePieceMax);
    batch.pass_size = 1;
    batch.global_batch = world_size;
    return batch;
  }
  batch.micro_batch = options.micro_batch;
  batch.seq_len = options.seq_len.value_or(
      options.run.empty() ? std::min(model.context, kInferenceTokens) : model.context);
  batch.pass_size = options.pass.value_or(
      std::max<std::int64_t>(1, kInferencePassRows / batch.micro_batch / batch.seq_len));
  batch.global_batch = world_size * batch.pass_size * batch.micro_batch;
  return batch;
}

BatchLayout training_batch(const Options& options, const models::ModelConfig& model,
                           int world_size) {
  BatchLayout batch;
  batch.global_batch = options.global_batch;
  batch.micro_batch = options.micro_batch;
  batch.world_size = world_size;
  batch.seq_len = options.seq_len.value_or(model.context);
  if (batch.global_batch < world_size) {
    throw_error<ConfigError>(
        "--global-batch {} is smaller than the {} ranks: each needs at least one sequence",
        batch.global_batch, world_size);
  }
  batch.micro_batch = std::min(batch.micro_batch, batch.sequences_max());
  batch.pass_size =
      std::min(options.pass.value_or(batch.micro_batches_max()), batch.micro_batches_max());
  return batch;
}

BatchLayout resolve_batch(const Options& options, const models::ModelConfig& model, int world_size,
                          Purpose purpose) {
  const BatchLayout batch = purpose == Purpose::training
                                ? training_batch(options, model, world_size)
                                : inference_batch(options, model, world_size);
  if (batch.seq_len > model.context) {
    throw_error<ConfigError>("--seq-len {} is longer than the model's context of {}", batch.seq_len,
                             model.context);
  }
  if (batch.global_batch > kTokensPerStepMax / batch.seq_len) {
    throw_error<ConfigError>("{} sequences of {} tokens each are more than {} tokens per step",
                             batch.global_batch, batch.seq_len, kTokensPerStepMax);
  }
  if (batch.pass_micro_batches_max() > kMicroBatchesPerPassMax) {
    throw_error<ConfigError>(
        "a pass of {} micro-batches is too long; use --pass {} or less, or a larger --micro-batch",
        batch.pass_micro_batches_max(), kMicroBatchesPerPassMax);
  }
  return batch;
}

ops::CpuOpsLimits op_limits(const RunSetup& setup) {
  ops::CpuOpsLimits limits;
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    limits.weight_rows_max = std::max(limits.weight_rows_max, shape.n);
    limits.weight_cols_max = std::max(limits.weight_cols_max, shape.k);
  }
  limits.rows_max = setup.shape.micro_batch.rows();
  limits.tokens_max = setup.shape.micro_batch.tokens;
  limits.head_dim = setup.model.head_dim;
  limits.heads_per_kv_head = setup.model.heads / setup.model.kv_heads;
  if (setup.shape.precision == Dtype::bf16 && !setup.options.pack && !has_prompt(setup.options)) {
    limits.attention =
        models::DecoderBlock(setup.model, Dtype::bf16, setup.shape.micro_batch).planned_attention();
    limits.attention.has_backward = setup.shape.purpose == Purpose::training;
  }
  return limits;
}

std::int64_t op_scratch_bytes(const RunSetup& setup) {
  return setup.device.gpu ? ops::cuda_ops_scratch_bytes(setup.device.gpu->backend, setup.op_limits)
                          : ops::cpu_ops_scratch_bytes(setup.op_limits, setup.threads);
}

std::vector<PlannedBuffer> fixed_buffers(const RunSetup& setup,
                                         comm::Communicator::StagingBytes comm_staging) {
  std::vector<PlannedBuffer> buffers = pass_buffers(setup.shape);
  const std::vector<PlannedBuffer> decoding = decode_buffers(setup.decode);
  buffers.insert(buffers.end(), decoding.begin(), decoding.end());
  const std::vector<PlannedBuffer> more = {
      {Tier::device, "op scratch", op_scratch_bytes(setup)},
      {Tier::device, "CUDA context", setup.device.gpu ? setup.device.gpu->gpu.context_bytes : 0},
      {Tier::device, kTokensTag, setup.batch.token_bytes()},
      {Tier::host, kTokensTag, setup.batch.token_bytes()},
      {Tier::device, kResultsTag, kResultsBytes},
      {Tier::host, kResultsTag, kResultsBytes},
      {Tier::host, kPortableTag, portable_memory_bytes(setup)},
      {Tier::host, kStoredBlocksTag, stored_blocks_bytes(setup)},
      {Tier::device, "collective staging", comm_staging.device},
      {Tier::host, "collective staging", comm_staging.host}};
  buffers.insert(buffers.end(), more.begin(), more.end());
  return buffers;
}

// Tokens of a sequence that is generated; 0: none is.
std::int64_t decoded_positions(const RunSetup& setup) {
  const Options& options = setup.options;
  if (setup.shape.purpose == Purpose::training) {
    return options.sample_tokens > 0 ? setup.batch.seq_len : 0;
  }
  if (!has_prompt(options)) return 0;
  const std::int64_t prompt = std::ssize(prompt_tokens(options, setup.source));
  return std::min(setup.model.context, prompt + options.max_tokens);
}

offload::UpdateTime update_time(const Options& options) {
  const bool waits_for_norm = options.clip_norm > 0 || options.on_nonfinite == "skip";
  return waits_for_norm ? offload::UpdateTime::deferred : offload::UpdateTime::in_backward;
}

// Inference keeps nothing, also where its model is that of a run.
offload::Durability durability(const Options& options, Purpose purpose) {
  if (options.run.empty() || purpose == Purpose::inference) return offload::Durability::none;
  return options.checkpoint_every.value_or(kDefaultCheckpointInterval).never()
             ? offload::Durability::clean_mark
             : offload::Durability::commits;
}

offload::Placement placement(const Options& options) {
  offload::Placement result;
  try {
    result = offload::parse_placement(options.place);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("--place: {}", e.what());
  }
  if (options.activations != "auto") {
    result.activations = offload::parse_tier(options.activations);
  }
  return result;
}

offload::StateDtypes state_dtypes(const Options& options, Purpose purpose) {
  offload::StateDtypes dtypes;
  if (purpose == Purpose::inference) dtypes.content = offload::StateContent::weights;
  dtypes.weights = options.precision == "f32" ? Dtype::f32 : Dtype::bf16;
  dtypes.gradients = options.grad_dtype == "bf16" ? Dtype::bf16 : Dtype::f32;
  dtypes.moments = options.moments == "int8"   ? MomentFormat::int8
                   : options.moments == "bf16" ? MomentFormat::bf16
                                               : MomentFormat::f32;
  dtypes.moment_count = options.optimizer == "lion" ? 1 : 2;
  return dtypes;
}

// What this rank's share of the step adds to what all ranks do alike.
void add_batch(const RunSetup& setup, offload::PlanInput& input) {
  const BatchLayout& batch = setup.batch;
  const int rank = setup.topology.rank;
  input.batch_bytes = batch.sequences(rank) * batch.seq_len * BatchLayout::kRowBytes;
  input.result_bytes = kLossBytes;
  WalkShape shape = largest_walk(setup.shape, setup.index);
  const std::int64_t last =
      batch.micro_batches(rank) - (batch.passes() - 1) * batch.pass_micro_batches_max();
  if (last == shape.micro_batches) return;
  shape.micro_batches = static_cast<int>(last);
  RecordWalk records = record_walk(shape, WalkKind::training);
  input.last_pass = {std::move(records.accesses), records.backward_turn};
}

offload::PlanInput plan_input(const RunSetup& setup,
                              comm::Communicator::StagingBytes comm_staging) {
  const Options& options = setup.options;
  offload::PlanInput input;
  for (std::size_t u = 0; u < setup.units.size(); ++u) {
    const models::UnitSpec& unit = setup.units[u];
    const bool tied = unit.role == models::UnitRole::token_table && setup.index.tied();
    input.units.push_back(
        {unit.name, unit.elements, tied ? 2 : 1, wholly_frozen(setup.parameter_groups[u])});
  }
  input.world_size = setup.topology.world_size;
  input.dtypes = state_dtypes(options, setup.shape.purpose);
  input.update = update_time(options);
  input.device_updates = device_name(setup) == "cuda";
  input.durability = durability(options, setup.shape.purpose);
  input.passes = setup.batch.passes();
  input.block_elements = setup.block_elements;
  const WalkKind walk =
      setup.shape.purpose == Purpose::training ? WalkKind::training : WalkKind::evaluation;
  const UnitWalk units = unit_walk(setup.index, walk);
  input.uses = units.uses;
  input.forward_uses = units.forward_uses;
  RecordWalk records = record_walk(largest_walk(setup.shape, setup.index), walk);
  input.record_walk = std::move(records.accesses);
  input.backward_turn = records.backward_turn;
  input.record_bytes = record_bytes(setup.shape);
  if (setup.shape.purpose == Purpose::training) add_batch(setup, input);
  input.fixed = fixed_buffers(setup, comm_staging);
  return input;
}

// All but what set_tiers() sets.
RunSetup resolve_shape(const Options& options, const comm::Topology& topology,
                       comm::Communicator::StagingBytes comm_staging, std::int64_t block_elements,
                       Purpose purpose, const RankDevice& device) {
  RunSetup setup;
  setup.device = device;
  setup.options = options;
  setup.block_elements = block_elements;
  setup.topology = topology;
  setup.source = resolve_model(options.model, options.resume ? kept_model_folder(options.run) : "");
  setup.model = setup.source.config;
  if (setup.model.vocabulary != models::kByteVocabulary &&
      options.sample_prompt != Options().sample_prompt) {
    throw ConfigError(
        "--sample-prompt is text, which only a byte-level model (vocabulary 256) reads");
  }
  setup.units = models::model_units(setup.model);
  setup.index = index_units(setup.units);
  setup.parameter_groups =
      parameter_groups(setup.units, options.no_decay, options.lr_scale, options.lr);
  setup.batch = resolve_batch(options, setup.model, topology.world_size, purpose);
  setup.isa = parse_isa(options.isa);
  const CpuShare share = cpu_share(topology.local_rank, topology.local_world_size);
  setup.threads = options.threads.value_or(share.threads);
  if (setup.threads == share.threads) setup.cpus = share.cpus;
  setup.shape.config = setup.model;
  setup.shape.precision = options.precision == "f32" ? Dtype::f32 : Dtype::bf16;
  setup.shape.micro_batch = {setup.batch.micro_batch, setup.batch.seq_len};
  setup.shape.micro_batches_max = static_cast<int>(setup.batch.pass_micro_batches_max());
  setup.shape.recompute = options.recompute;
  setup.shape.purpose = purpose;
  setup.decode = decode_shape(setup.model, setup.shape.precision, decoded_positions(setup),
                              setup.shape.micro_batch.rows());
  setup.op_limits = op_limits(setup);
  setup.plan_input = plan_input(setup, comm_staging);
  return setup;
}

// Everything that follows from the options but the plan.
RunSetup resolve(const Options& options, const comm::Topology& topology,
                 comm::Communicator::StagingBytes comm_staging, std::int64_t block_elements,
                 Purpose purpose, const RankDevice& device) {
  return resolve_run_setup(options, topology, comm_staging,
                           resolve_memory_budgets(options, topology, device), block_elements,
                           purpose, device);
}

// What does not fit into memory needs a directory.
bool has_room(const Options& options, const offload::PlanResult& result) {
  const bool has_nvme = !options.nvme.empty() || !options.run.empty();
  return result.fits && (has_nvme || result.plan.total_bytes(Tier::nvme) == 0);
}

[[noreturn]] void refuse(const RunSetup& setup, const offload::Shortfall& shortfall,
                         comm::Communicator::StagingBytes comm_staging) {
  const auto fits = [&](const Options& options) {
    return make_plan(resolve(options, setup.topology, comm_staging, setup.block_elements,
                             setup.shape.purpose, setup.device)
                         .plan_input)
        .fits;
  };
  throw PlanDoesNotFit(
      fmt::format("{} memory is short by {}: this run needs {} of it and has {}; {}",
                  shortfall.tier == Tier::device ? "device" : "host",
                  format_bytes(shortfall.needed_bytes - shortfall.budget_bytes),
                  format_bytes(shortfall.needed_bytes), format_bytes(shortfall.budget_bytes),
                  budget_advice(setup, fits)),
      shortfall);
}

}  // namespace

std::string device_name(const RunSetup& setup) {
  return setup.options.machine.empty() ? setup.device.name() : setup.options.device;
}

std::int64_t portable_memory_bytes(const RunSetup& setup) {
  const bool any = !setup.options.checkpoint_to.empty() || !setup.options.export_to.empty();
  return any ? kPortableBlocks * setup.block_elements * bytes_of(Dtype::f32) : 0;
}

std::int64_t stored_blocks_bytes(const RunSetup& setup) {
  if (setup.shape.purpose == Purpose::training || setup.options.run.empty()) return 0;
  return kStoredBlocks * setup.block_elements * bytes_of(Dtype::f32);
}

RunSetup resolve_run_setup(const Options& options, const comm::Topology& topology,
                           comm::Communicator::StagingBytes comm_staging,
                           const MemoryBudgets& budgets, std::int64_t block_elements,
                           Purpose purpose, const RankDevice& device) {
  RunSetup setup = resolve_shape(options, topology, comm_staging, block_elements, purpose, device);
  set_tiers(setup, options, budgets);
  return setup;
}

void set_tiers(RunSetup& setup, const Options& options, const MemoryBudgets& budgets) {
  setup.options = options;
  offload::PlanInput& input = setup.plan_input;
  input.placement = placement(options);
  // Further ahead than the whole pass there is nothing to read.
  input.prefetch =
      static_cast<int>(std::min(options.prefetch, static_cast<int>(input.uses.size())));
  input.chunk_elements = options.chunk_size ? ceil_div(*options.chunk_size, bytes_of(Dtype::f32))
                                            : offload::PlanInput().chunk_elements;
  input.device_memory_bytes = budgets.device_bytes;
  input.host_memory_bytes = budgets.host_bytes;
}

RunSetup make_run_setup(const Options& options, const comm::Topology& topology,
                        comm::Communicator::StagingBytes comm_staging, std::int64_t block_elements,
                        Purpose purpose, const RankDevice& device) {
  RunSetup setup = resolve(options, topology, comm_staging, block_elements, purpose, device);
  offload::PlanResult result = make_plan(setup.plan_input);
  if (purpose == Purpose::inference && !options.pass) {  // bits do not depend on the pass
    Options smaller = options;
    for (std::int64_t pass = setup.batch.pass_size / 2; pass > 0 && !has_room(options, result);
         pass /= 2) {
      smaller.pass = pass;
      setup = resolve(smaller, topology, comm_staging, block_elements, purpose, device);
      result = make_plan(setup.plan_input);
    }
    setup.options = options;
  }
  if (!result.fits) refuse(setup, result.shortfall, comm_staging);
  setup.plan = std::move(result.plan);
  return setup;
}

}  // namespace strata::engine
