#include "engine/options/option_list_builder.h"

namespace strata::engine {

void add_model_data(ListBuilder& list) {
  list.group(OptionGroup::model_data);
  list.mathematical(true);
  list.add("model",
           "A pretrained model: a Hugging Face folder, or org/name in the local cache. Or a shape: "
           "a published one such as llama3-8b, qwen2.5-0.5b or gpt2-124m, or one's own such as "
           "llama:layers=6,hidden=384,heads=6,context=256 (byte-level unless vocab=N is given)",
           text_field("MODEL", &Options::model), {"model_name_or_path", "model_name"});
  list.add("from-scratch",
           "Begin with random weights: for the shape of a published model, or of a folder, whose "
           "weights are not read; GPT-2's shapes and one's own imply it",
           switch_field(&Options::from_scratch))
      .is_flag = true;
  list.add("data",
           "Training data: token files (llm.c or nanoGPT .bin, Megatron .idx/.bin), or text for a "
           "byte-level model; patterns such as 'train_*.bin' name several, read as one",
           text_field("FILE,...", &Options::data),
           {"train_file", "train_data", "dataset", "data_path"})
      .paths = OptionPaths::several;
  OptionSpec& val_data = list.add("val-data", "Validation data, in the same formats",
                                  text_field("FILE,...", &Options::val_data),
                                  {"validation_file", "eval_file", "eval_data"});
  val_data.mathematical = false;
  val_data.paths = OptionPaths::several;
  list.add("val-fraction", "Share of --data, at its end, that is kept for validation",
           number_field("0..0.5", &Options::val_fraction), {"val_split", "val_set_size"});
  list.add("pack",
           "Put as many whole documents into a sequence as fit, none of which attends to another; "
           "without it each document of data with a NAME.docs is a sequence of its own",
           switch_field(&Options::pack), {"packing", "sample_packing"})
      .is_flag = true;
  list.add("overlong",
           "Documents longer than a sequence: end the run at its start, leave them out, or keep "
           "their beginning",
           choice_field({"error", "drop", "truncate"}, &Options::overlong));
}

void add_batch(ListBuilder& list) {
  list.group(OptionGroup::batch);
  list.used_by(kTrainAndPlan);
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

}  // namespace strata::engine
