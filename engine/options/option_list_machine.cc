#include "engine/options/option_list_builder.h"

namespace strata::engine {

void add_tiers(ListBuilder& list) {
  list.group(OptionGroup::tiers);
  list.add("device", "Where the mathematics runs; auto is cuda where there is a GPU, otherwise cpu",
           choice_field({"auto", "cpu", "cuda"}, &Options::device), {"accelerator"});
  list.mathematical(false);
  OptionSpec& device_memory =
      list.add("device-memory",
               "Hard budget of the device memory of each rank; on the cpu device this is RAM too. "
               "Unset, what is free less a margin; auto in strata train, what makes steps short",
               size_field(&Options::device_memory), {"gpu_memory"});
  device_memory.of_a_rank = true;
  device_memory.shows_default = false;
  OptionSpec& host_memory = list.add(
      "host-memory",
      "Hard budget of pinned host memory per machine, divided over its ranks; unset and auto as "
      "above",
      size_field(&Options::host_memory), {"cpu_memory"});
  host_memory.of_a_rank = true;
  host_memory.shows_default = false;
  OptionSpec& nvme =
      list.add("nvme",
               "Directories for the state that fits no memory, one for each drive, with the "
               "bandwidth of each or it is measured; without it, the folder of --run",
               text_field("DIR[=7GB/s],...", &Options::nvme),
               {"nvme_path", "nvme_offload_dir", "offload_folder"});
  nvme.used_by = {CommandKind::train, CommandKind::plan, CommandKind::export_run,
                  CommandKind::doctor, CommandKind::bench_io};
  nvme.help_of = {{CommandKind::export_run,
                   "Directories where the files of the run's store are now, if they were moved"},
                  {CommandKind::doctor, "Directories to look at, one for each drive"},
                  {CommandKind::bench_io,
                   "Directories to measure, one for each drive, with the bandwidth of each or it "
                   "is measured first"}};
  nvme.of_a_rank = true;
  nvme.paths = OptionPaths::several;
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
  list.used_by({CommandKind::plan, CommandKind::tune});
  OptionSpec& machine = list.add(
      "machine", "Plan for the machine that this file describes (docs/machines), not for this one",
      text_field("FILE", &Options::machine));
  machine.of_a_start = true;
  machine.paths = OptionPaths::file;
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

void add_tuning(ListBuilder& list) {
  list.group(OptionGroup::tuning);
  list.used_by({CommandKind::tune});
  list.add("vary",
           "Options that change what is computed and that may be chosen nevertheless, where they "
           "are not given: micro-batch, pass, moments, grad-dtype, or none",
           list_field("NAME,...", &Options::vary));
  list.add("plans", "How many plans to show", integer_field(&Options::plans));
  list.add("measure", "Train a few steps with each of them, and show what they take",
           switch_field(&Options::measure))
      .is_flag = true;
  list.add("refresh", "Measure the machine anew, whatever is known of it",
           switch_field(&Options::refresh))
      .is_flag = true;
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

}  // namespace strata::engine
