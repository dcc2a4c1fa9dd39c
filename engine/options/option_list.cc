#include "engine/options/option_list.h"

#include <utility>

#include "engine/options/option_values.h"

namespace strata::engine {
namespace {

const CommandSet kTrain = {CommandKind::train};
const CommandSet kTrainAndPlan = {CommandKind::train, CommandKind::plan};

class ListBuilder {
 public:
  // Of the options added from here on.
  void group(OptionGroup group) { group_ = group; }
  void used_by(CommandSet used_by) { used_by_ = used_by; }
  void mathematical(bool mathematical) { mathematical_ = mathematical; }

  OptionSpec& add(std::string name, std::string help, OptionField field,
                  std::vector<std::string> aliases = {}) {
    OptionSpec& spec = list_.emplace_back(
        OptionSpec{std::move(name), group_, used_by_, std::move(field.value_hint), std::move(help),
                   std::move(aliases), std::move(field.set), std::move(field.get)});
    spec.mathematical = mathematical_;
    return spec;
  }

  std::vector<OptionSpec> take() { return std::move(list_); }

 private:
  OptionGroup group_ = OptionGroup::model_data;
  CommandSet used_by_ = kTrainAndPlan;
  bool mathematical_ = false;
  std::vector<OptionSpec> list_;
};

void add_model_data(ListBuilder& list) {
  list.group(OptionGroup::model_data);
  list.mathematical(true);
  list.add("model",
           "gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1.5b, or a shape such as "
           "gpt2:layers=6,hidden=384,heads=6,context=256 (byte-level unless vocab=N is given)",
           text_field("MODEL", &Options::model), {"model_name_or_path", "model_name"});
  list.add("data",
           "Training data: token files (llm.c or nanoGPT .bin, Megatron .idx/.bin), or text for a "
           "byte-level model; patterns such as 'train_*.bin' name several, read as one",
           text_field("FILE,...", &Options::data),
           {"train_file", "train_data", "dataset", "data_path"});
  list.add("val-data", "Validation data, in the same formats",
           text_field("FILE,...", &Options::val_data),
           {"validation_file", "eval_file", "eval_data"})
      .mathematical = false;
  list.add("val-fraction", "Share of --data, at its end, that is kept for validation",
           number_field("0..0.5", &Options::val_fraction), {"val_split", "val_set_size"});
}

void add_tiers(ListBuilder& list) {
  list.group(OptionGroup::tiers);
  list.add("device", "Where the mathematics runs; auto is cpu, the only one that this build has",
           choice_field({"auto", "cpu", "cuda"}, &Options::device), {"accelerator"});
  list.mathematical(false);
  list.add("device-memory",
           "Hard budget of the device memory of each rank; on the cpu device this is RAM too",
           size_field(&Options::device_memory), {"gpu_memory"})
      .of_a_rank = true;
  list.add("host-memory", "Hard budget of pinned host memory per machine, divided over its ranks",
           size_field(&Options::host_memory), {"cpu_memory"})
      .of_a_rank = true;
  OptionSpec& nvme =
      list.add("nvme",
               "Directories for the state that fits no memory, one for each drive, with the "
               "bandwidth of each or it is measured; without it, the folder of --run",
               text_field("DIR[=7GB/s],...", &Options::nvme),
               {"nvme_path", "nvme_offload_dir", "offload_folder"});
  nvme.used_by = {CommandKind::train, CommandKind::plan, CommandKind::doctor,
                  CommandKind::bench_io};
  nvme.help_of = {{CommandKind::doctor, "Directories to look at, one for each drive"},
                  {CommandKind::bench_io,
                   "Directories to measure, one for each drive, with the bandwidth of each or it "
                   "is measured first"}};
  nvme.of_a_rank = true;
  list.add("place",
           "Tiers (device, host, nvme) of kinds of state (weights, remainder, moments, gradients, "
           "or "
           "all for those not named), such as weights=host,moments=nvme; the plan chooses the rest",
           text_field("KIND=TIER,...", &Options::place))
      .of_a_rank = true;
  list.add("prefetch", "Units that are read ahead of their use", integer_field(&Options::prefetch));
  list.add("chunk-size",
           "Size of one transfer of the streaming optimizer, of a state in f32; rounded up to "
           "whole MiB, the blocks that have a checksum",
           size_field(&Options::chunk_size));
  list.add("activations", "Tier of the activation checkpoints",
           choice_field({"auto", "device", "host", "nvme"}, &Options::activations));
  list.add("recompute", "Recompute a unit's activations in backward instead of keeping them",
           switch_field(&Options::recompute),
           {"gradient_checkpointing", "activation_checkpointing"});
}

void add_batch(ListBuilder& list) {
  list.group(OptionGroup::batch);
  list.mathematical(true);
  list.add("global-batch", "Sequences per step, over all ranks",
           integer_field(&Options::global_batch), {"train_batch_size", "global_batch_size"});
  list.add("micro-batch", "Sequences computed at once on a rank",
           integer_field(&Options::micro_batch),
           {"per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch_size",
            "per_gpu_train_batch_size"});
  list.add("pass",
           "Micro-batches that go through a unit while it is resident; auto is all of a step",
           integer_field(&Options::pass));
  list.add("seq-len", "Tokens per sequence; auto is the model's context",
           integer_field(&Options::seq_len),
           {"max_seq_length", "max_length", "block_size", "sequence_length", "seq_length",
            "model_max_length", "cutoff_len"});
  list.add("steps", "Steps to train", integer_field(&Options::steps),
           {"max_steps", "num_steps", "max_iters", "total_num_steps", "train_iters"})
      .shows_default = false;
  list.add("epochs", "Passes over the data to train for, instead of --steps",
           number_field("NUMBER", &Options::epochs), {"num_train_epochs", "num_epochs"})
      .shows_default = false;
}

void add_optimizer(ListBuilder& list) {
  list.group(OptionGroup::optimizer);
  list.used_by(kTrainAndPlan);
  list.add("optimizer", "Update rule", choice_field({"adamw", "adam", "lion"}, &Options::optimizer),
           {"optim", "optimizer_type"});
  list.used_by(kTrain);
  list.add("lr", "Peak learning rate", number_field("NUMBER", &Options::lr),
           {"learning_rate", "max_lr"});
  list.add("lr-schedule",
           "Shape of the learning rate after the warm-up; wsd is warm-up, stable, decay: constant, "
           "then down over the last fifth of the steps",
           choice_field({"cosine", "linear", "constant", "wsd"}, &Options::lr_schedule),
           {"lr_scheduler_type", "lr_scheduler", "scheduler", "lr_decay_style"});
  list.add("warmup", "Linear warm-up: steps, or a share of all steps such as 3%",
           steps_or_percent_field(&Options::warmup),
           {"warmup_steps", "warmup_iters", "warmup_num_steps"});
  list.add("min-lr", "Learning rate that the schedule ends at",
           number_field("NUMBER", &Options::min_lr), {"min_learning_rate"});
  list.add("weight-decay", "Weight decay of everything but biases, norms and --no-decay",
           number_field("NUMBER", &Options::weight_decay));
  list.add("beta1", "Decay of the first moment", number_field("NUMBER", &Options::beta1),
           {"adam_beta1"});
  list.add("beta2", "Decay of the second moment", number_field("NUMBER", &Options::beta2),
           {"adam_beta2"});
  list.add("eps", "Added to the root of the second moment", number_field("NUMBER", &Options::eps),
           {"adam_epsilon", "adam_eps"});
  list.used_by(kTrainAndPlan);
  list.add("clip-norm",
           "Largest norm of the whole gradient; 0 turns clipping off, which lets the optimizer run "
           "within backward",
           number_field("NUMBER", &Options::clip_norm),
           {"max_grad_norm", "gradient_clipping", "clip_grad", "grad_clip", "max_norm"});
  list.add(
      "no-decay",
      "Parameters without weight decay, besides biases and norms: shell globs on names, such as "
      "wpe.*",
      list_field("PATTERN,...", &Options::no_decay), {"no_weight_decay"});
  list.add(
      "lr-scale",
      "Factors on the learning rate of parameters, by shell globs on names, such as wte.*=0.1; "
      "0 freezes them",
      list_field("PATTERN=X,...", &Options::lr_scale));
  list.add("moments",
           "Format of the optimizer's moments: f32, bf16 (rounded stochastically) or int8 (8 bits, "
           "with a scale for every 256)",
           choice_field({"f32", "bf16", "int8"}, &Options::moments));
  list.add("grad-dtype", "Gradients wait for the optimizer as f32, or rounded once to bf16",
           choice_field({"f32", "bf16"}, &Options::grad_dtype), {"grad_accum_dtype"});
  list.add("on-nonfinite", "What a non-finite loss or gradient does: end the run, or skip the step",
           choice_field({"stop", "skip"}, &Options::on_nonfinite))
      .mathematical = false;  // a run that stopped has no other weights
}

void add_arithmetic(ListBuilder& list) {
  list.group(OptionGroup::arithmetic);
  list.add("precision", "Type of the working weights and activations",
           choice_field({"bf16", "f32"}, &Options::precision), {"mixed_precision", "dtype"});
  list.used_by(kTrain);
  list.add("matmul-dtype", "Type that matrix products run in; auto measures at start",
           choice_field({"auto", "bf16", "f32"}, &Options::matmul_dtype));
  list.used_by({CommandKind::train, CommandKind::plan, CommandKind::bench_optimizer});
  list.add(
      "isa",
      "Instruction set, a part of the arithmetic: runs with another one round otherwise in matrix "
      "products; auto is the best that this machine has",
      choice_field({"auto", "avx512", "avx2", "scalar"}, &Options::isa));
  OptionSpec& threads = list.add(
      "threads", "Compute threads of a rank; auto is its share of the processors it may use",
      integer_field(&Options::threads), {"num_threads"});
  threads.help_of = {
      {CommandKind::bench_optimizer, "Compute threads; auto measures with 1 and with all"}};
  threads.of_a_rank = true;
  threads.mathematical = false;
  list.used_by(kTrain);
  list.add(
      "seed",
      "Of the initial weights, the order of the data, and the rounding of --moments bf16 and int8",
      integer_field(&Options::seed), {"random_seed"});
}

void add_run(ListBuilder& list) {
  list.group(OptionGroup::run);
  list.mathematical(false);
  list.used_by(kTrainAndPlan);
  list.add("run", "Folder for the run's options, plan, log and state: a new one, or see --resume",
           text_field("DIR", &Options::run), {"output_dir", "out_dir", "run_dir"});
  list.add("checkpoint-every",
           "Commit the state to the folder of --run after so many steps or so much time (s, min, "
           "h); 0 does so only where the run stops, in half the space",
           interval_field(&Options::checkpoint_every),
           {"save_steps", "save_interval", "save_every", "checkpoint_interval"});
  list.used_by(kTrain);
  const auto add_of_a_start = [&](std::string name, std::string help,
                                  OptionField field) -> OptionSpec& {
    OptionSpec& spec = list.add(std::move(name), std::move(help), std::move(field));
    spec.of_a_start = true;
    return spec;
  };
  add_of_a_start("resume",
                 "Go on with the run in the folder of --run, with its options where no others are "
                 "given; begins it where there is none yet",
                 switch_field(&Options::resume))
      .is_flag = true;
  add_of_a_start("resume-step", "Step of the commit to go on from; auto is the newest",
                 integer_field(&Options::resume_step));
  add_of_a_start("resume-from", "Begin with the weights, moments and step of a portable checkpoint",
                 text_field("DIR", &Options::resume_from));
  add_of_a_start("allow-change",
                 "Options that may differ from those of the run though its weights will, or "
                 "arithmetic, where this machine lacks what the run was computed with",
                 list_field("NAME,...", &Options::allow_change));
  list.add("checkpoint-to",
           "Folder for portable checkpoints, copied from commits while training goes on",
           text_field("DIR", &Options::checkpoint_to));
  list.add("checkpoint-keep", "Portable checkpoints that are kept, the newest ones",
           integer_field(&Options::checkpoint_keep), {"save_total_limit"});
  list.add("export", "Write the trained model to this folder at the end, as Hugging Face has them",
           text_field("DIR", &Options::export_to));
  list.add("stop-within",
           "How long the step under way may still take after a signal to stop; one that would "
           "take longer is dropped",
           duration_field(&Options::stop_within));
  list.used_by({CommandKind::gc});
  list.add("dry-run", "Show what would be removed, and remove nothing",
           switch_field(&Options::dry_run))
      .is_flag = true;
  list.add("force", "Remove stores that are damaged or whose run is gone, too",
           switch_field(&Options::force))
      .is_flag = true;
}

void add_exporting(ListBuilder& list) {
  list.group(OptionGroup::exporting);
  list.used_by({CommandKind::export_run});
  list.add("with-optimizer", "Write masters and moments too: a portable checkpoint to resume from",
           switch_field(&Options::with_optimizer))
      .is_flag = true;
  list.add("max-shard-size", "Size at which the weights go on in another file",
           size_field(&Options::max_shard_size));
  list.add("export-dtype", "Type of the weights; auto is the --precision of the run",
           choice_field({"auto", "bf16", "f32"}, &Options::export_dtype), {"torch_dtype"});
}

void add_watching(ListBuilder& list) {
  list.group(OptionGroup::watching);
  list.used_by(kTrainAndPlan);
  list.add("eval-every", "Steps between evaluations; 0 evaluates only at start and end",
           integer_field(&Options::eval_every), {"eval_steps", "eval_interval"});
  list.add("eval-batches", "Micro-batches of an evaluation; 0 is all of the validation data",
           integer_field(&Options::eval_batches), {"eval_iters"});
  list.used_by(kTrain);
  list.add("sample-every", "Steps between samples of generated text; 0 samples only at the end",
           integer_field(&Options::sample_every));
  list.add("sample-tokens", "Length of a sample; 0 generates none",
           integer_field(&Options::sample_tokens), {"max_new_tokens"});
  list.add("sample-prompt",
           "Text that a sample of a byte-level model goes on from, with \\n for a new line",
           escaped_text_field("TEXT", &Options::sample_prompt));
  list.add("log",
           "Append one JSON line per step to this file, besides the log of --run; with --resume, "
           "steps that are computed again stand in it twice",
           text_field("FILE", &Options::log), {"log_file"})
      .of_a_rank = true;
  list.add("trace",
           "Write a Chrome trace of streams and threads to this file, or with several ranks to "
           "FILE.RANK",
           text_field("FILE", &Options::trace))
      .of_a_rank = true;
  list.used_by({CommandKind::train, CommandKind::plan, CommandKind::inspect, CommandKind::verify,
                CommandKind::gc, CommandKind::doctor, CommandKind::bench_io,
                CommandKind::bench_optimizer});
  list.add("json", "Progress and results as JSON on standard output", switch_field(&Options::json))
      .is_flag = true;
}

void add_limits(ListBuilder& list) {
  list.group(OptionGroup::limits);
  list.used_by({CommandKind::train, CommandKind::bench_io});
  list.add("io-engine",
           "How transfers reach the drive: io_uring, or a pool of threads; auto is io_uring where "
           "the system permits it",
           choice_field({"auto", "uring", "threads"}, &Options::io_engine))
      .of_a_rank = true;
  list.add("io-timeout", "Seconds after which one transfer counts as stuck and ends the run",
           number_field("SECONDS", &Options::io_timeout));
  list.used_by(kTrainAndPlan);
  list.add(
          "nvme-endurance",
          "Bytes that each drive of --nvme may be written in its life, as its data sheet has them, "
          "such as 600TBW: the run's writes are shown as a share of it",
          text_field("600TBW[,...]", &Options::nvme_endurance))
      .of_a_rank = true;
  list.add("comm-timeout", "Seconds after which a silent rank ends the run",
           number_field("SECONDS", &Options::comm_timeout), {"ddp_timeout", "dist_timeout"});
}

void add_benchmark(ListBuilder& list) {
  list.group(OptionGroup::benchmark);
  list.used_by({CommandKind::bench_io});
  list.add("blocks", "Sizes of a transfer to measure", list_field("SIZE,...", &Options::blocks));
  list.add("depths", "Numbers of blocks in flight to measure",
           list_field("N,...", &Options::depths));
  list.add("modes", "What to measure: read, write, and mixed, which is half of each",
           list_field("MODE,...", &Options::modes));
  list.add("file-size", "Space to measure on; auto is 2GiB", size_field(&Options::file_size));
  list.add("cell-seconds", "How long each combination is measured",
           number_field("SECONDS", &Options::cell_seconds));
  list.add("checksums", "Compute and verify checksums, as training does",
           switch_field(&Options::checksums));
  list.used_by({CommandKind::bench_optimizer});
  list.add("elements", "Parameters to update", integer_field(&Options::elements));
  list.add("variants",
           "What to measure: f32-gradients, bf16-gradients, f32-masters, bf16-moments, "
           "int8-moments, lion; unset, all",
           list_field("NAME,...", &Options::variants))
      .shows_default = false;
}

std::vector<OptionSpec> build_list() {
  ListBuilder list;
  add_model_data(list);
  add_tiers(list);
  add_batch(list);
  add_optimizer(list);
  add_arithmetic(list);
  add_run(list);
  add_exporting(list);
  add_watching(list);
  add_limits(list);
  add_benchmark(list);
  return list.take();
}

}  // namespace

const std::vector<OptionSpec>& option_list() {
  static const std::vector<OptionSpec> list = build_list();
  return list;
}

const char* title_of(OptionGroup group) {
  switch (group) {
    case OptionGroup::model_data:
      return "Model and data";
    case OptionGroup::tiers:
      return "Tiers";
    case OptionGroup::batch:
      return "Batch";
    case OptionGroup::optimizer:
      return "Optimizer";
    case OptionGroup::arithmetic:
      return "Arithmetic";
    case OptionGroup::run:
      return "Run";
    case OptionGroup::exporting:
      return "Export";
    case OptionGroup::watching:
      return "Watching";
    case OptionGroup::limits:
      return "Limits";
    case OptionGroup::benchmark:
      return "Benchmark";
  }
  return "";
}

}  // namespace strata::engine
